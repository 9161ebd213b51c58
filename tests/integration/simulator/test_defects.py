"""What bad hosts do to an answer; the truth keeps what was emitted."""

import pytest

from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.tokens.loading import folder_of

THINK_CLOSE, END, SECTION, SECTION_END = 163_607, 163_586, 163_595, 163_596
TOOLS = [{"type": "function", "function": {"name": "look_up"}}]


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(folder_of("builtin:kimi-mini"))


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
