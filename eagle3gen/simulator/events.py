"""An answer cut into the deltas of a stream."""

from collections.abc import Iterator
from dataclasses import dataclass

from eagle3gen.simulator.voice import Answer, Ids, Voice


@dataclass(frozen=True, slots=True)
class Delta:
    """A little more of an answer."""

    kind: str
    """`reasoning`, `content`, `call` (a new tool call, its text is the id) or `arguments`."""
    text: str
    index: int = 0
    """Which tool call."""
    upto: int = 0
    """How many of the answer's ids have been emitted with this delta."""


def deltas(answer: Answer, voice: Voice, size: int) -> list[Delta]:
    """The deltas of an answer, `size` tokens in each, in the order in which they come."""
    found: list[Delta] = []
    for kind, index, text, run in _parts(answer, voice):
        start, ids = run or (found[-1].upto if found else 0, None)
        if kind == "call":
            found.append(Delta(kind, text, index, start + len(ids or ())))
            continue
        if ids is not None and voice.text(ids) == text:
            pieces = voice.pieces(ids, size)
        else:
            # Not the text of one run of ids: cut by characters, so that it takes as long.
            pieces = _by_characters(text, len(answer.ids) - start if ids is None else len(ids), size)
        found += [Delta(kind, piece, index, start + used) for piece, used in pieces]
    return found


def _parts(answer: Answer, voice: Voice) -> Iterator[tuple[str, int, str, tuple[int, Ids] | None]]:
    """Each text with its run of ids, and where the run begins."""
    runs = voice.runs(answer.ids)

    def run(name: str, number: int = 0) -> tuple[int, Ids] | None:
        return runs[name][number] if number < len(runs[name]) else None

    if answer.reasoning and answer.hidden is None:
        yield "reasoning", 0, answer.reasoning, run("reasoning")
    if answer.content:
        yield "content", 0, answer.content, run("content")
    for index, call in enumerate(answer.calls):
        yield "call", index, call.id.text, run("call", index)
        yield "arguments", index, call.arguments.text, run("arguments", index)


def _by_characters(text: str, tokens: int, size: int) -> list[tuple[str, int]]:
    step = max(1, -(-len(text) * size // max(1, tokens)))
    cuts = range(0, len(text), step)
    return [(text[at : at + step], tokens * min(len(text), at + step) // len(text)) for at in cuts]
