r"""Other readings of an answer that cost as many tokens as ours. One is enough: agreeing counts then prove nothing.

Hosts strip texts, and a blank is often free: " Hello" and "Hello" are one token each, and so are "." and ".\n"
(28% of simulated stripped answers looked exact). A text that came with a blank at either end was not stripped; of
any other, each end is tried with the blanks that models write there. What no single answer can show is a host that
strips one end only, or one line break of an unclosed thinking; that is for the measured profile.
"""

from collections.abc import Sequence
from itertools import product

from eagle3gen.records import Completion
from eagle3gen.tokens.encoding import KimiEncoding

BLANKS = (" ", "\n", "\n\n", "\t", "  ", " \n", "\u3000")
EDGE_CHARS = 200
"""A blank at the end of a text changes the tokens near it only."""

Moves = frozenset[int]
"""What each way to alter one place of an answer would add to its count; one of them at a time."""
DROPPED = Moves({1})
"""A text of nothing but blanks, which hosts answer as none."""
UNCLOSED = Moves({-1})
"""Kimi may open a tool section without `</think>` before it; the text cannot show it."""


def rival_exists(encoding: KimiEncoding, completion: Completion) -> bool:
    """Whether some blanks may have been stripped, or the thinking closed without its tag, at the same count."""
    places = _edges(encoding, completion.reasoning) if completion.reasoning else [DROPPED]
    places += _edges(encoding, completion.content) if completion.content else [DROPPED | UNCLOSED]
    return any(0 in moves for moves in places) or any(map(_cancels, product(*([None, *moves] for moves in places))))


def _cancels(moves: Sequence[int | None]) -> bool:
    made = [move for move in moves if move is not None]
    return bool(made) and sum(made) == 0


def _edges(encoding: KimiEncoding, text: str) -> list[Moves]:
    head, tail = text[:EDGE_CHARS], text[-EDGE_CHARS:]
    if text[0] == "\n":
        # Some parsers trim one line break of several, and two cost as much as one.
        return [Moves({_length(encoding, "\n" + head) - _length(encoding, head)})]
    if text[0].isspace() or text[-1].isspace():
        return []
    return [
        Moves(_length(encoding, blank + head) - _length(encoding, head) for blank in BLANKS),
        Moves(_length(encoding, tail + blank) - _length(encoding, tail) for blank in BLANKS),
    ]


def _length(encoding: KimiEncoding, text: str) -> int:
    return len(encoding.encode_text(text))
