"""How a bad host shows an answer. The ids stay what they are."""

import base64
import json
import random
from dataclasses import replace

from eagle3gen.simulator.asked import Asked
from eagle3gen.simulator.voice import Answer, Piece, ToolCall, Voice

DRIFT = (-3, -2, -1, 1, 2, 3)
NEED_CALLS = frozenset({"implicit_close", "rewritten_ids", "opaque_ids", "rewritten_arguments", "empty_content"})
"""Faults of answers that call tools."""
SUMMARY_CHARS = 60


def possible(faults: frozenset[str], asked: Asked) -> frozenset[str]:
    """Without those that need tools, when none may be called."""
    return faults if asked.may_call_tools else faults - NEED_CALLS


def shown(answer: Answer, faults: frozenset[str], rng: random.Random, voice: Voice) -> Answer:
    """The answer with its faults, in the order in which a server's steps would make them."""
    for fault, change in (
        ("leaked_markers", _leaked),
        ("leaked_in_reasoning", _leaked_in_reasoning),
    ):
        if fault in faults:
            answer = change(answer, voice)
    answer = _with_other_calls(answer, faults, rng)
    return _with_other_counts(_with_other_texts(answer, faults, rng), faults, rng)


def _leaked(answer: Answer, voice: Voice) -> Answer:
    said = voice.spelled(voice.after_thinking(answer.ids))
    return replace(answer, content=said, calls=[], finish=_without_calls(answer))


def _leaked_in_reasoning(answer: Answer, voice: Voice) -> Answer:
    thought = len(answer.ids) - (answer.finish != "length")
    reasoning = voice.spelled(answer.ids)
    return replace(answer, reasoning=reasoning, calls=[], finish=_without_calls(answer), reasoning_tokens=thought)


def _without_calls(answer: Answer) -> str | None:
    return "stop" if answer.finish == "tool_calls" else answer.finish


def _with_other_calls(answer: Answer, faults: frozenset[str], rng: random.Random) -> Answer:
    calls = answer.calls
    if "rewritten_ids" in faults:
        calls = [_renamed(call, _next_number(call.id.text)) for call in calls]
    if "opaque_ids" in faults:
        calls = [_renamed(call, f"call_{rng.getrandbits(96):024x}") for call in calls]
    if "rewritten_arguments" in faults:
        calls = [replace(call, arguments=Piece(_respaced(call.arguments.text), call.arguments.ids)) for call in calls]
    return replace(answer, calls=calls)


def _renamed(call: ToolCall, name: str) -> ToolCall:
    return replace(call, id=Piece(name, call.id.ids))


def _next_number(name: str) -> str:
    head, _, number = name.rpartition(":")
    return f"{head}:{int(number) + 1}"


def _respaced(arguments: str) -> str:
    """The same JSON with other blanks."""
    value = json.loads(arguments)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if arguments != compact:
        return compact
    return json.dumps(value, ensure_ascii=False) if value else "{ }"


def _with_other_texts(answer: Answer, faults: frozenset[str], rng: random.Random) -> Answer:
    if "dropped_close" in faults:
        answer = replace(answer, reasoning=(answer.reasoning or "") + (answer.content or ""), content=None, null=True)
    if "stripped_blank" in faults:
        answer = replace(answer, reasoning=_stripped(answer.reasoning), content=_stripped(answer.content))
    if "empty_content" in faults and answer.content is None:
        answer = replace(answer, content="")
    if "null_content" in faults:
        answer = replace(answer, null=True)
    if "encrypted_reasoning" in faults:
        data = base64.b64encode(rng.randbytes(120)).decode()
        answer = replace(answer, reasoning=None, hidden=("reasoning.encrypted", "data", data))
    if "summarised_reasoning" in faults:
        summary = "**Thinking**\n" + (answer.reasoning or "").strip()[:SUMMARY_CHARS]
        answer = replace(answer, reasoning=summary, hidden=("reasoning.summary", "summary", summary))
    return answer


def _with_other_counts(answer: Answer, faults: frozenset[str], rng: random.Random) -> Answer:
    if "wrong_reasoning_tokens" in faults:
        right = answer.reasoning_tokens
        answer = replace(answer, reasoning_tokens=rng.choice([0, right // 2, right + 7, len(answer.ids) + 1]))
    if "count_drift" in faults:
        answer = replace(answer, billed=max(1, answer.billed + rng.choice(DRIFT)))
    if "no_finish" in faults:
        answer = replace(answer, finish=None)
    return answer


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.lstrip(" \n")
