"""The simulator as a client sees it, and its books."""

import asyncio
from decimal import Decimal

import httpx
import pytest

from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.tokens.loading import folder_of

FOLDER = folder_of("builtin:kimi-mini")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "parameters": {
                "type": "object",
                "properties": {"word": {"type": "string"}, "n": {"type": "integer"}, "kind": {"enum": ["a", "b"]}},
                "required": ["word"],
            },
        },
    }
]


def structure(ids: list[int], vocabulary: Vocabulary) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, content and tool calls that ids spell, by their control ids."""
    controls = {i: s for s, i in vocabulary.controls.items()}
    parts: list[tuple[str, list[int]]] = [("reasoning", [])]
    for i in ids:
        if i in controls:
            parts.append((controls[i], []))
        else:
            parts[-1][1].append(i)
    texts = [(name, vocabulary.text(part)) for name, part in parts]
    content = next((text for name, text in texts if name == "</think>"), "")
    names = [text for name, text in texts if name == "<|tool_call_begin|>"]
    arguments = [text for name, text in texts if name == "<|tool_call_argument_begin|>"]
    return texts[0][1], content, list(zip(names, arguments, strict=True))


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
async def test_what_is_returned_is_the_text_of_the_true_ids(running, tools) -> None:
    vocabulary = Vocabulary(FOLDER)
    async with running() as simulator:
        replies = [(await simulator.ask(f"q {n}", tools=tools)).json() for n in range(30)]
        truth = {row["generation_id"]: row for row in await simulator.emitted(30)}
    called = 0
    for reply in replies:
        row, message = truth[reply["id"]], reply["choices"][0]["message"]
        reasoning, content, calls = structure(row["completion_ids"], vocabulary)
        assert message["reasoning"] == reasoning == message["reasoning_details"][0]["text"]
        assert (message["content"] or "") == content
        told = [(c["id"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
        assert told == calls
        called += len(calls)
        assert row["completion_ids"][-1] == 163_586
        assert reply["usage"]["completion_tokens"] == len(row["completion_ids"]) == row["completion_tokens"]
        assert reply["usage"]["prompt_tokens"] == row["prompt_tokens"]
        assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] <= row["completion_tokens"]
    assert bool(called) is bool(tools)


async def test_answers_are_canonical_so_that_they_can_be_rebuilt(running) -> None:
    vocabulary = Vocabulary(FOLDER)
    async with running() as simulator:
        await asyncio.gather(*(simulator.ask(f"q {n}") for n in range(40)))
        for row in await simulator.emitted(40):
            reasoning, content, _ = structure(row["completion_ids"], vocabulary)
            assert row["completion_ids"] == [
                *vocabulary.encode(reasoning),
                163_607,
                *vocabulary.encode(content),
                163_586,
            ]


async def test_the_reply_has_openrouters_shape(running) -> None:
    async with running() as simulator:
        response = await simulator.ask()
        reply = response.json()
    assert response.headers["x-generation-id"] == reply["id"]
    assert response.text.startswith("\n         \n")
    assert reply["model"] == "moonshotai/kimi-k2.5-0127"
    assert reply["provider"] in {host.name for host in HOSTS}
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["cost"] == pytest.approx(reply["usage"]["cost_details"]["upstream_inference_cost"])


async def test_the_same_seed_and_requests_give_the_same_answers(running) -> None:
    async def answers(seed: int) -> list[tuple]:
        async with running(seed=seed) as simulator:
            replies = [(await simulator.ask("again")).json() for _ in range(3)]
        return [(r["choices"][0]["message"], r["usage"]) for r in replies]

    first, again, other = await answers(1), await answers(1), await answers(2)
    assert first == again != other
    assert first[0] != first[1]


async def test_the_bill_is_the_sum_of_what_was_answered(running) -> None:
    async with running() as simulator:
        replies = [r.json() for r in await asyncio.gather(*(simulator.ask(f"q {n}") for n in range(50)))]
        bill, rows = await simulator.bill(), await simulator.emitted(50)
    assert (bill["calls"], bill["open"]) == (50, 0)
    assert bill["completion_tokens"] == sum(r["usage"]["completion_tokens"] for r in replies)
    assert Decimal(bill["cost_usd"]) == sum(Decimal(row["cost"]) for row in rows)


async def test_a_plain_call_is_billed_although_its_client_has_gone(running) -> None:
    async with running(latency_seconds=0.6) as simulator:
        with pytest.raises(httpx.ReadTimeout):
            await simulator.http.post(
                f"{simulator.url}/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": "x"}]},
                timeout=httpx.Timeout(0.15),
            )
        assert (await simulator.bill())["open"] == 1
        (row,) = await simulator.emitted(1)
        bill = await simulator.bill()
    assert (bill["calls"], bill["disconnected"], bill["completion_tokens"]) == (1, 1, row["completion_tokens"])


async def test_a_generation_can_be_looked_up_after_a_while(running) -> None:
    async with running() as simulator:
        reply = (await simulator.ask()).json()
        early = await simulator.http.get(f"{simulator.url}/generation", params={"id": reply["id"]})
        await asyncio.sleep(0.4)
        late = await simulator.http.get(f"{simulator.url}/generation", params={"id": reply["id"]})
        unknown = await simulator.http.get(f"{simulator.url}/generation", params={"id": "gen-x"})
    assert (early.status_code, late.status_code, unknown.status_code) == (404, 200, 404)
    record = late.json()["data"]
    assert record["native_tokens_completion"] == reply["usage"]["completion_tokens"]
    assert record["total_cost"] == reply["usage"]["cost"]


@pytest.mark.parametrize("limit", [1, 7, 40, 130])
async def test_a_limit_cuts_the_answer_without_an_end_token(running, limit) -> None:
    async with running(mean_tokens=400, spread=0.1) as simulator:
        reply = (await simulator.ask(max_tokens=limit)).json()
        (row,) = await simulator.emitted(1)
    assert reply["choices"][0]["finish_reason"] == row["finish_reason"] == "length"
    assert len(row["completion_ids"]) == limit == reply["usage"]["completion_tokens"]
    assert 163_586 not in row["completion_ids"]


async def test_tool_ids_count_over_the_whole_conversation(running) -> None:
    history = [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "functions.look_up:0", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "functions.look_up:0", "content": "1"},
    ]
    async with running(tool_share=1.0) as simulator:
        reply = (await simulator.ask(messages=history, tools=TOOLS)).json()
    ids = [call["id"] for call in reply["choices"][0]["message"]["tool_calls"]]
    assert ids == [f"functions.look_up:{n}" for n in range(1, len(ids) + 1)]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"model":"m","messages":[]}', b'{"messages":[{"role":"user","content":"x"}]}']
)
async def test_what_is_no_request_is_answered_with_400_and_costs_nothing(running, body) -> None:
    async with running() as simulator:
        response = await simulator.http.post(f"{simulator.url}/chat/completions", content=body)
        bill = await simulator.bill()
    assert response.status_code == response.json()["error"]["code"] == 400
    assert (bill["calls"], bill["open"], bill["errors"]) == (0, 0, 1)


async def test_another_key_is_refused(running) -> None:
    async with running(api_key="right") as simulator:
        assert (await simulator.ask()).status_code == 401
        simulator.http.headers["authorization"] = "Bearer right"
        assert (await simulator.ask()).status_code == 200


async def test_a_share_of_calls_fails_in_passing_and_is_not_billed(running) -> None:
    async with running(fail_share=0.5) as simulator:
        replies = await asyncio.gather(*(simulator.ask(f"q {n}") for n in range(60)))
        bill = await simulator.bill()
    failed = [r for r in replies if r.status_code != 200 or "error" in r.json()]
    assert 10 < len(failed) == bill["errors"] < 50
    assert {r.status_code for r in failed} == {200, 429, 502}
    assert bill["calls"] == 60 - len(failed)


async def test_the_lists_of_models_and_hosts_are_there(running) -> None:
    async with running() as simulator:
        models = (await simulator.http.get(f"{simulator.url}/models")).json()["data"]
        path = "models/moonshotai/kimi-k2.5/endpoints"
        hosts = (await simulator.http.get(f"{simulator.url}/{path}")).json()["data"]["endpoints"]
        key = (await simulator.http.get(f"{simulator.url}/key")).json()["data"]
        nothing = await simulator.http.get(f"{simulator.url}/nothing")
    assert models[0]["id"] == "moonshotai/kimi-k2.5"
    assert {h["provider_name"] for h in hosts} == {h.name for h in HOSTS}
    assert Decimal(hosts[0]["pricing"]["completion"]) == HOSTS[0].completion_usd_per_million / 1_000_000
    assert key["usage"] == 0
    assert nothing.status_code == 404
