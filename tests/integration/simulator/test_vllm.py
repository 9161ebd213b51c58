"""The simulator as a vLLM server: no cost, and the true ids for who asks."""

import json

import pytest

from eagle3gen.simulator.prompts import PromptCounter
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.tokens.loading import folder_of

FOLDER = folder_of("builtin:kimi-mini")
TOOLS = [{"type": "function", "function": {"name": "now"}}]


@pytest.fixture
def vllm(running):
    return lambda **options: running(dialect="vllm", **options)


def events(text: str) -> list[dict]:
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]


async def test_an_answer_has_vllms_shape_and_no_money(vllm) -> None:
    async with vllm() as simulator:
        reply = await simulator.ask()
        body = reply.json()
    assert reply.text.startswith("{")
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "moonshotai/kimi-k2.5"
    assert body["usage"].keys() == {"prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details"}
    assert "provider" not in body
    choice = body["choices"][0]
    assert choice["message"]["reasoning"] == choice["message"]["reasoning_content"]
    assert (choice["token_ids"], body["prompt_token_ids"], choice["logprobs"]) == (None, None, None)


async def test_the_true_ids_come_with_an_answer_that_asks_for_them(vllm) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    async with vllm() as simulator:
        body = (await simulator.ask(return_token_ids=True)).json()
        (row,) = await simulator.emitted(1)
    assert body["choices"][0]["token_ids"] == row["completion_ids"]
    assert body["prompt_token_ids"] == PromptCounter(FOLDER, Vocabulary(FOLDER)).ids(messages, [])
    assert len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]


async def test_logprobs_name_every_id(vllm) -> None:
    async with vllm() as simulator:
        body = (await simulator.ask(logprobs=True)).json()
        (row,) = await simulator.emitted(1)
    told = [entry["token"] for entry in body["choices"][0]["logprobs"]["content"]]
    assert told == [f"token_id:{number}" for number in row["completion_ids"]]


async def test_tool_calls_are_always_a_list(vllm) -> None:
    async with vllm(tool_share=1.0) as simulator:
        without = (await simulator.ask()).json()["choices"][0]
        called = (await simulator.ask(tools=TOOLS)).json()["choices"][0]
    assert without["message"]["tool_calls"] == []
    assert called["message"]["tool_calls"][0]["function"] == {"name": "now", "arguments": "{}"}
    assert called["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
async def test_a_stream_tells_the_ids_piece_by_piece(vllm, tools) -> None:
    async with vllm(tool_share=1.0) as simulator:
        asked = {"stream": True, "return_token_ids": True, "stream_options": {"include_usage": True}, "tools": tools}
        reply = await simulator.ask(**asked)
        (row,) = await simulator.emitted(1)
    told = events(reply.text)
    choices = [choice for event in told for choice in event["choices"]]
    assert [number for choice in choices for number in choice["token_ids"]] == row["completion_ids"]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert len(told[0]["prompt_token_ids"]) == row["prompt_tokens"]
    assert choices[-1]["finish_reason"] == ("tool_calls" if tools else "stop")
    assert told[-1]["choices"] == []
    assert told[-1]["usage"]["completion_tokens"] == len(row["completion_ids"])
    assert reply.text.endswith("data: [DONE]\n\n")
    assert ": OPENROUTER" not in reply.text


async def test_a_stream_tells_its_counts_only_to_who_asks(vllm) -> None:
    async with vllm() as simulator:
        told = events((await simulator.ask(stream=True)).text)
    assert not any("usage" in event for event in told)
    assert all(choice["token_ids"] is None for event in told for choice in event["choices"])


async def test_the_models_are_listed_as_vllm_lists_them(vllm) -> None:
    async with vllm(models=("kimi",)) as simulator:
        body = (await simulator.http.get(simulator.url.replace("/api/v1", "/v1/models"))).json()
        missing = [
            await simulator.http.get(f"{simulator.url}/{path}") for path in ("key", "credits", "generation?id=x")
        ]
    assert body["object"] == "list"
    assert [(model["id"], model["max_model_len"]) for model in body["data"]] == [("kimi", 262_144)]
    assert {reply.status_code for reply in missing} == {404}


async def test_errors_are_worded_as_vllm_words_them(vllm) -> None:
    async with vllm(fault=(("all", "status_500", 1.0),)) as simulator:
        wrong = await simulator.ask(max_tokens="x")
        failed = await simulator.ask()
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (400, "BadRequestError")
    assert "max_tokens" in wrong.json()["error"]["message"]
    assert (failed.status_code, failed.json()["error"]["code"]) == (500, 500)


@pytest.mark.parametrize(("fault", "text"), [("closed_early", ""), ("cut_json", '{"id":"chatcmpl-')])
async def test_a_reply_may_break_off(vllm, fault, text) -> None:
    async with vllm(fault=(("all", fault, 1.0),)) as simulator:
        reply = await simulator.ask()
    assert reply.text.startswith(text)
    with pytest.raises(json.JSONDecodeError):
        reply.json()


async def test_a_stream_that_fails_says_so(vllm) -> None:
    async with vllm(fault=(("all", "inside_error", 1.0),)) as simulator:
        told = events((await simulator.ask(stream=True)).text)
        assert (await simulator.bill())["errors"] == 1
    assert told[-1]["error"]["code"] == 500
