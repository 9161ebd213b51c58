"""What bad hosts do to an answer; the truth keeps what was emitted."""

import json
import re

import pytest

from eagle3gen.simulator.defects import NEED_CALLS
from eagle3gen.simulator.host import HOSTS

THINK_CLOSE, END, SECTION, SECTION_END = 163_607, 163_586, 163_595, 163_596
TOOLS = [
    {
        "type": "function",
        "function": {"name": "look_up", "parameters": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}},
    }
]


@pytest.fixture
def met(running):
    """Answers of a host that always has one fault, each beside its true row."""

    async def ask(fault: str, count: int = 12, *, fields=None, **options) -> list[tuple[dict, dict]]:
        async with running(fault=(("all", fault, 1.0),), **options) as simulator:
            replies = [(await simulator.ask(f"q {n}", **(fields or {}))).json() for n in range(count)]
            rows = {row["generation_id"]: row for row in await simulator.emitted(count)}
        assert all(row["faults"] == [fault] for row in rows.values())
        return [(reply, rows[reply["id"]]) for reply in replies]

    return ask


def parts(reply: dict) -> tuple[dict, str]:
    choice = reply["choices"][0]
    return choice["message"], choice["finish_reason"]


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["no tools", "tools"])
async def test_leaked_markers_stand_in_the_content_and_are_real_control_ids(met, vocabulary, tools) -> None:
    for reply, row in await met("leaked_markers", fields={"tools": tools}):
        message, finish = parts(reply)
        ids = row["completion_ids"]
        assert "tool_calls" not in message
        assert finish == "stop"
        assert message["content"].count("<|tool_calls_section_begin|>") == ids.count(SECTION) == 1
        assert message["content"].endswith("<|tool_calls_section_end|>")
        assert vocabulary.spelled(ids[ids.index(THINK_CLOSE) + 1 : -1]) == message["content"]
        assert reply["usage"]["completion_tokens"] == len(ids)


async def test_leaked_markers_are_cut_where_the_answer_is_cut(met, vocabulary) -> None:
    for reply, row in await met("leaked_markers", fields={"max_tokens": 30}, mean_tokens=30, spread=0.2):
        message, finish = parts(reply)
        ids = row["completion_ids"]
        rest = ids[ids.index(THINK_CLOSE) + 1 :] if THINK_CLOSE in ids else []
        if finish == "length":
            assert (len(ids), message["content"]) == (30, vocabulary.spelled(rest))


async def test_an_answer_that_never_leaves_its_thinking(met, vocabulary) -> None:
    for reply, row in await met("all_in_reasoning"):
        message, finish = parts(reply)
        assert (message["content"], finish) == ("", "stop")
        assert row["completion_ids"] == [*vocabulary.encode(message["reasoning"]), END]
        assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] == len(row["completion_ids"]) - 1


async def test_an_answer_without_a_finish_reason_is_whole(met) -> None:
    for reply, row in await met("no_finish"):
        message, finish = parts(reply)
        assert finish is row["finish_reason"] is None
        assert message["content"]
        assert row["completion_ids"][-1] == END


async def test_quoted_control_strings_are_ordinary_ids(met, vocabulary) -> None:
    seen = set()
    for reply, row in await met("quoted_controls", 20):
        message, _ = parts(reply)
        reasoning, content = vocabulary.encode(message["reasoning"]), vocabulary.encode(message["content"])
        assert row["completion_ids"] == [*reasoning, THINK_CLOSE, *content, END]
        quoting = [part for part in ("reasoning", "content") if any(c in message[part] for c in vocabulary.controls)]
        assert len(quoting) == 1
        seen.update(quoting)
    assert seen == {"reasoning", "content"}


async def test_a_stripped_blank_is_still_in_the_ids(met, vocabulary) -> None:
    for reply, row in await met("stripped_blank"):
        message, _ = parts(reply)
        ids = row["completion_ids"]
        close = ids.index(THINK_CLOSE)
        emitted = (vocabulary.text(ids[:close]), vocabulary.text(ids[close + 1 : -1]))
        assert (message["reasoning"], message["content"]) == tuple(text.lstrip() for text in emitted)
        assert all(text.startswith(" ") for text in emitted)


async def test_a_drifting_count_is_billed_and_the_ids_stay_true(met) -> None:
    drifts = set()
    for reply, row in await met("count_drift", 30):
        billed = reply["usage"]["completion_tokens"]
        assert billed == row["completion_tokens"]
        drifts.add(billed - len(row["completion_ids"]))
        host = next(host for host in HOSTS if host.name == reply["provider"])
        assert row["cost"] == format(host.price(row["prompt_tokens"], billed).total.normalize(), "f")
    assert len(drifts) > 3
    assert drifts <= {-3, -2, -1, 1, 2, 3}


def with_tools(**more) -> dict:
    return {"fields": {"tools": TOOLS, **more}, "tool_share": 0.0}


async def test_markers_leak_into_reasoning_that_was_never_left(met, vocabulary) -> None:
    for reply, row in await met("leaked_in_reasoning"):
        message, finish = parts(reply)
        ids = row["completion_ids"]
        assert THINK_CLOSE not in ids
        assert message["reasoning"] == vocabulary.spelled(ids[:-1])
        assert message["reasoning"].endswith("<|tool_calls_section_end|>")
        assert (message["content"], finish, "tool_calls" in message) == ("", "stop", False)


async def test_a_tool_section_may_close_the_thinking_by_itself(met, vocabulary) -> None:
    for reply, row in await met("implicit_close", **with_tools()):
        message, finish = parts(reply)
        ids = row["completion_ids"]
        assert THINK_CLOSE not in ids
        assert vocabulary.encode(message["reasoning"]) == ids[: ids.index(SECTION)]
        assert (message["content"], finish) == (None, "tool_calls")
        assert len(message["tool_calls"]) == ids.count(163_597)


async def test_a_close_that_is_lost_leaves_all_text_in_reasoning(met, vocabulary) -> None:
    for reply, row in await met("dropped_close"):
        message, _ = parts(reply)
        ids = row["completion_ids"]
        close = ids.index(THINK_CLOSE)
        assert message["reasoning"] == vocabulary.text(ids[:close]) + vocabulary.text(ids[close + 1 : -1])
        assert message["content"] is None


async def test_a_host_may_stop_before_the_limit(met) -> None:
    for reply, row in await met("cut_short", fields={"max_tokens": 5000}):
        _, finish = parts(reply)
        assert finish == "length"
        assert len(row["completion_ids"]) < 5000
        assert END not in row["completion_ids"]


@pytest.mark.parametrize(
    ("fault", "shape"), [("rewritten_ids", r"functions\.look_up:\d+"), ("opaque_ids", "call_[0-9a-f]{24}")]
)
async def test_ids_of_tool_calls_are_not_those_that_were_emitted(met, vocabulary, fault, shape) -> None:
    for reply, row in await met(fault, **with_tools()):
        message, _ = parts(reply)
        spelled = vocabulary.spelled(row["completion_ids"])
        for number, call in enumerate(message["tool_calls"]):
            assert re.fullmatch(shape, call["id"])
            assert call["id"] != f"functions.look_up:{number}"
            assert f"<|tool_call_begin|>functions.look_up:{number}<" in spelled


async def test_arguments_may_be_written_anew(met, vocabulary) -> None:
    for reply, row in await met("rewritten_arguments", **with_tools()):
        message, _ = parts(reply)
        spelled = vocabulary.spelled(row["completion_ids"])
        for call in message["tool_calls"]:
            emitted = re.search(f"{call['id']}<.tool_call_argument_begin.>(.*?)<.tool_call_end.>", spelled)[1]
            assert emitted != call["function"]["arguments"]
            assert json.loads(emitted) == json.loads(call["function"]["arguments"])


async def test_content_beside_tool_calls_is_empty_or_null(met) -> None:
    for reply, _ in await met("empty_content", **with_tools()):
        assert parts(reply)[0]["content"] == ""
    for reply, row in await met("null_content"):
        assert parts(reply)[0]["content"] is None
        assert THINK_CLOSE not in row["completion_ids"]


@pytest.mark.parametrize("fault", sorted(NEED_CALLS))
async def test_a_fault_of_tool_calls_is_not_met_without_tools(running, fault) -> None:
    async with running(fault=(("all", fault, 1.0),)) as simulator:
        await simulator.ask()
        (row,) = await simulator.emitted(1)
    assert row["faults"] == []


async def test_encrypted_reasoning_is_billed_and_cannot_be_read(met) -> None:
    for reply, row in await met("encrypted_reasoning"):
        message, _ = parts(reply)
        (item,) = message["reasoning_details"]
        assert message["reasoning"] is None
        assert (item["type"], len(item["data"]) > 100) == ("reasoning.encrypted", True)
        assert reply["usage"]["completion_tokens"] == len(row["completion_ids"])


async def test_summarised_reasoning_is_not_what_was_thought(met, vocabulary) -> None:
    for reply, row in await met("summarised_reasoning"):
        message, _ = parts(reply)
        (item,) = message["reasoning_details"]
        assert (item["type"], item["summary"]) == ("reasoning.summary", message["reasoning"])
        thought = vocabulary.text(row["completion_ids"][: row["completion_ids"].index(THINK_CLOSE)])
        assert message["reasoning"] != thought


async def test_the_count_of_reasoning_may_be_wrong_while_the_bill_is_right(met) -> None:
    wrong = 0
    for reply, row in await met("wrong_reasoning_tokens"):
        told = reply["usage"]["completion_tokens_details"]["reasoning_tokens"]
        wrong += told != row["completion_ids"].index(THINK_CLOSE) + 1
        assert reply["usage"]["completion_tokens"] == len(row["completion_ids"])
    assert wrong == 12


async def test_one_host_has_a_fault_and_the_others_have_none(running) -> None:
    async with running(fault=(("Chutes", "no_finish", 1.0),)) as simulator:
        replies = [(await simulator.ask(f"q {n}")).json() for n in range(25)]
    for reply in replies:
        assert (parts(reply)[1] is None) is (reply["provider"] == "Chutes")
    assert len({reply["provider"] for reply in replies}) > 1


async def test_the_same_seed_meets_the_same_faults(running) -> None:
    async def faults() -> list[list[str]]:
        async with running(fault=(("all", "count_drift", 0.5), ("all", "no_cost", 0.3))) as simulator:
            for number in range(20):
                await simulator.ask(str(number))
            return [row["faults"] for row in await simulator.emitted(20)]

    first = await faults()
    assert first == await faults()
    assert len({tuple(names) for names in first}) > 1
