"""Mutated bodies and streams: never an exception, and never a success with text missing.

    python -m benchmarks.fuzz_replies                      100,000 mutations
    python -m benchmarks.fuzz_replies --count 5 --seed 42  the first five of a seed, to look at one again

What is claimed of each: it is read as exactly one of completion and refusal, with a word for its outcome; a success
that has all its events holds every text that still stands in the body; a success that was cut short holds all texts
of the whole. Also in the tests, with fewer mutations.
"""

import argparse
import copy
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from eagle3gen.endpoint.assembly import Assembly
from eagle3gen.endpoint.refusal import OutcomeWord
from eagle3gen.endpoint.reply import Reply, read_reply

OUTCOMES = get_args(OutcomeWord)
STATUSES = (200,) * 12 + (204, 302, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 524, 529, 599)
USAGE = {
    "prompt_tokens": 3, "completion_tokens": 9, "cost": 0.001, "is_byok": True,
    "cost_details": {"upstream_inference_cost": 0.1}, "completion_tokens_details": {"reasoning_tokens": 2},
}  # fmt: skip
TEXTS = ["<R0>", "<R1>", "<C0>", "<C1>", "<N0>", "<A0>", "<A1>"]
CALL = {"index": 0, "id": "functions.f:0", "type": "function", "function": {"name": "<N0>", "arguments": "<A0><A1>"}}
PLAIN = {
    "id": "gen-1", "model": "m", "provider": "H",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "native_finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "<C0><C1>", "reasoning": "<R0><R1>",
        "reasoning_details": [{"type": "reasoning.text", "text": "<R0><R1>", "format": None, "index": 0}],
        "tool_calls": [CALL],
    }}],
    "usage": USAGE,
}  # fmt: skip
ERROR = {
    "error": {
        "code": 429, "message": "Provider returned error",
        "metadata": {"headers": {"X-RateLimit-Reset": "1743292800000"}, "retry_after_seconds": 3, "error_type": "x",
                     "raw": '{"error":{"message":"busy"}}', "provider_name": "H", "previous_errors": [{"code": 1}]},
        "availability": {"code": "no_endpoints", "retryable": True, "retry_after": 3},
    },
    "usage": {"completion_tokens": 1},
}  # fmt: skip
PAGES = [b"<html>502</html>", b"error code: 1015", b"", b"\n         \n" * 3]
ODD = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    ["x"],
    float("inf"),
    "429",
    429,
]


def _events() -> list[Any]:
    """The chunks of a streamed answer with the same texts as `PLAIN`."""

    def chunk(finish: str | None = None, more: dict[str, Any] | None = None, **delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
        return {"id": "gen-1", "model": "m", "provider": "H", "choices": [choice], **(more or {})}

    def thought(text: str) -> dict[str, Any]:
        return chunk(reasoning=text, reasoning_details=[{"type": "reasoning.text", "text": text, "index": 0}])

    start = {**CALL, "function": {"name": "<N0>", "arguments": ""}}
    return [
        thought("<R0>"), thought("<R1>"), chunk(content="<C0>"), chunk(content="<C1>"), chunk(tool_calls=[start]),
        *[chunk(tool_calls=[{"index": 0, "function": {"arguments": text}}]) for text in ("<A0>", "<A1>")],
        chunk("tool_calls"), chunk("tool_calls", {"usage": USAGE}),
    ]  # fmt: skip


EVENTS = _events()
FAILED = [*EVENTS[:3], {"id": "gen-1", "choices": [], "error": {"code": 502, "message": "m"}}]


@dataclass(frozen=True, slots=True)
class Case:
    """One mutated reply, and what is claimed of it beyond being read."""

    status: int
    body: bytes
    claim: str
    """`read`, `kept` (texts in the body are in a success) or `whole` (a success holds all texts)."""


def stream(events: list[Any]) -> bytes:
    comment = b": OPENROUTER PROCESSING\n\n"
    return comment + b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n"


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from paths(inner, (*at, name))


def changed(whole: Any, rng: random.Random) -> Any:
    """The same with one value replaced or taken away."""
    path = rng.choice(list(paths(whole)))
    if not path:
        return rng.choice(ODD)
    data = copy.deepcopy(whole)
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    if rng.random() < 0.2:
        del holder[path[-1]]
    else:
        holder[path[-1]] = rng.choice(ODD)
    return data


def mutate_bytes(rng: random.Random) -> Case:
    """A few bytes changed, taken away or repeated."""
    whole = [json.dumps(PLAIN).encode(), json.dumps(ERROR).encode(), stream(EVENTS), stream(FAILED), *PAGES]
    body = bytearray(rng.choice(whole))
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randint(0, len(body)), rng.choice((1, 1, 2, 8, 64))
        match rng.randrange(4):
            case 0:
                body[at : at + 1] = rng.randbytes(1)
            case 1:
                del body[at : at + length]
            case 2:
                body[at:at] = body[at : at + length]
            case _:
                body[at:at] = rng.choice(
                    (b"\n", b"\n\n", b'"', b"{", b"}", b"data: ", b": ", b"\xff", b"\\ud83d", b"\r")
                )
    return Case(rng.choice(STATUSES), bytes(body), "read")


def mutate_value(rng: random.Random) -> Case:
    """One value of a sound body replaced by any other."""
    whole = rng.choice((PLAIN, PLAIN, ERROR))
    return Case(rng.choice(STATUSES), json.dumps(changed(whole, rng)).encode(), "kept" if whole is PLAIN else "read")


def mutate_event(rng: random.Random) -> Case:
    """One value of one event of a stream replaced by any other, or its line damaged."""
    events = copy.deepcopy(EVENTS)
    at = rng.randrange(len(events))
    if rng.random() < 0.8:
        events[at] = changed(events[at], rng)
        return Case(rng.choice(STATUSES), stream(events), "kept")
    line = json.dumps(events[at]).encode()
    cut = rng.randrange(1, len(line) - 1)
    return Case(200, stream(events).replace(line, line[:cut]), "kept")


def mutate_length(rng: random.Random) -> Case:
    """A body or a stream cut anywhere."""
    whole = rng.choice((json.dumps(PLAIN).encode(), stream(EVENTS)))
    return Case(200, whole[: rng.randint(0, len(whole))], "whole")


def mutate_form(rng: random.Random) -> Case:
    """A stream in another form that means the same."""
    raw = stream(EVENTS)
    for old, new in rng.sample([(b"data: ", b"data:"), (b"\n\n", b"\n\n: x\n\n"), (b"data: {", b"event: m\ndata: {"),
                                (b"\n", b"\r\n"), (b'{"id"', b'{\ndata: "id"')], rng.randint(0, 3)):  # fmt: skip
        raw = raw.replace(old, new)
    return Case(200, raw, "form")


MUTATORS: tuple[Callable[[random.Random], Case], ...] = (
    *(mutate_bytes, mutate_bytes, mutate_value, mutate_event, mutate_event),
    *(mutate_length, mutate_form),
)


def mutated(rng: random.Random) -> Case:
    return rng.choice(MUTATORS)(rng)


def check(case: Case, rng: random.Random) -> Reply:
    """Read a mutated reply. Raises AssertionError for a claim that does not hold."""
    reply = read_reply(case.status, {"X-Generation-Id": "gen-9"}, case.body)
    assert (reply.completion is None) != (reply.refusal is None)
    assert reply.outcome in OUTCOMES
    again = read_reply(case.status, {"X-Generation-Id": "gen-9"}, reply.body)
    assert (again.completion, again.outcome, again.billed) == (reply.completion, reply.outcome, reply.billed)
    if reply.refusal is not None:
        assert reply.refusal.message.isprintable()
        assert case.claim != "form", reply.refusal
        return reply
    answer = reply.completion
    assert answer is not None
    assert answer.content or answer.tool_calls or answer.finish_reason == "length"
    held = [
        answer.content or "",
        answer.reasoning or "",
        *(t for c in answer.tool_calls for t in (c.name, c.arguments)),
    ]
    text = "\0".join(held)
    if case.claim == "kept" and not answer.hidden_reasoning:
        assert all(t in text for t in TEXTS if t.encode() in case.body), text
    if case.claim in {"whole", "form"}:
        assert all(t in text for t in TEXTS), text
    if case.claim == "form":
        feed(case.body, rng, reply)
    return reply


def feed(raw: bytes, rng: random.Random, reply: Reply) -> None:
    """The same stream in packets of any size is the same body."""
    assembly = Assembly()
    while raw:
        size = rng.randint(1, 200)
        assembly.feed(raw[:size])
        raw = raw[size:]
    assert assembly.body() == reply.body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    started = time.monotonic()
    for n in range(args.count):
        rng = random.Random(f"{args.seed}-{n}")
        case = mutated(rng)
        try:
            reply = check(case, rng)
        except Exception:
            print(f"mutation {n} of seed {args.seed}: status {case.status}, claim {case.claim}\n{case.body!r}")
            raise
        outcomes[reply.outcome] += 1
        kinds[reply.refusal.kind if reply.refusal else "answer"] += 1
    print(f"{args.count:,} mutations of seed {args.seed} in {time.monotonic() - started:.0f} s, every claim holds")
    print("outcomes:", ", ".join(f"{count:,} {word}" for word, count in outcomes.most_common()))
    print("kinds:", ", ".join(f"{count:,} {word}" for word, count in kinds.most_common()))


if __name__ == "__main__":
    main()
