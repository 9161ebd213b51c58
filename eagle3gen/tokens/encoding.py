"""Kimi's encoding: byte-pair ranks read and hashed by us, the true control ids, two ways of reading a text.

*Ordinary* text never contains control ids, whatever it spells. A *rendered* prompt does: servers encode the whole
text with control strings active.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tiktoken

from eagle3gen.errors import TokenizerRefused
from eagle3gen.tokens.family import Family

CUT_CHARS = 400_000
CUT_RUN_CHARS = 25_000
"""Moonshot's own tokenizer class cuts a text into such pieces before it encodes (tokenization_kimi.py)."""
BLANKS_MAX = 500_000
"""A longer run of blanks overflows the stack of tiktoken's splitting engine, which then panics (near 700,000)."""
_RUN = re.compile(r"\s+|\S+")
_BLANKS = re.compile(r"\s+")


class TooManyBlanks(ValueError):
    """A run of blanks that the encoder cannot split."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The byte pairs of `tiktoken.model`."""

    table: Mapping[bytes, int]
    sha256: str


def read_ranks(path: Path) -> Ranks:
    """Read a `tiktoken.model`. Raises TokenizerRefused naming the line that is not a rank.

    Never by tiktoken's own loader: it caches by path, without looking at the content.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TokenizerRefused(f"cannot read {path}: {error.strerror}") from error
    table: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            table[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise TokenizerRefused(f"{path} line {number} is not a token and its rank; copy the file again") from error
    return Ranks(table, hashlib.sha256(data).hexdigest())


class KimiEncoding:
    """Text to ids and back, with ids exactly where the family has them. Safe from any thread."""

    def __init__(self, ranks: Ranks, control_ids: Mapping[str, int], family: Family) -> None:
        self.family = family
        self.sha256 = ranks.sha256
        self.base_size = len(ranks.table)
        taken = set(control_ids.values())
        reserved = [i for i in range(family.base_vocabulary, family.vocabulary_size) if i not in taken]
        self.control_ids = {family.reserved_name.format(id=i): i for i in reserved} | dict(control_ids)
        self._encoding = tiktoken.Encoding(
            family.name, pat_str=family.pattern, mergeable_ranks=dict(ranks.table), special_tokens=self.control_ids
        )
        self._control = _spellings(control_ids, family.reserved_name, reserved)

    def encode_text(self, text: str) -> list[int]:
        """Ordinary ids: a control string in the text is only its characters.

        Raises UnicodeEncodeError for lone surrogates, which no model emitted, and TooManyBlanks.
        """
        text.encode("utf-8")
        if len(text) > BLANKS_MAX and any(len(run[0]) > BLANKS_MAX for run in _BLANKS.finditer(text)):
            raise TooManyBlanks(f"a run of more than {BLANKS_MAX:,} blanks cannot be encoded")
        return self._encoding.encode_ordinary(text)

    def encode_rendered(self, text: str) -> list[int]:
        """Ids of a rendered prompt: control strings are active, wherever they stand, as on the server.

        Raises UnicodeEncodeError for lone surrogates, which tiktoken would replace silently.
        """
        text.encode("utf-8")
        ids: list[int] = []
        for piece in _pieces(text):
            # As tiktoken's `encode` with all specials allowed, which hands 256 strings over at every call.
            begin = 0
            for control in self._control.finditer(piece):
                ids += self._encoding.encode_ordinary(piece[begin : control.start()])
                ids.append(self.control_ids[control[0]])
                begin = control.end()
            ids += self._encoding.encode_ordinary(piece[begin:])
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control strings spelled out; partial characters become U+FFFD."""
        return self._encoding.decode(list(ids), errors="replace")

    def control_strings_in(self, text: str) -> list[str]:
        """The control strings that a text spells."""
        return self._control.findall(text)


def _spellings(named: Iterable[str], reserved_name: str, reserved: Iterable[int]) -> re.Pattern[str]:
    """Finds every control string. The reserved ones share one branch: hundreds make a search ten times as slow."""
    before, after = map(re.escape, reserved_name.split("{id}"))
    unlisted = f"{before}(?:{'|'.join(map(str, reserved))}){after}"
    return re.compile("|".join([*map(re.escape, sorted(named, key=len, reverse=True)), unlisted]))


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), CUT_CHARS):
        chunk = text[start : start + CUT_CHARS]
        if len(chunk) <= CUT_RUN_CHARS:
            yield chunk
        else:
            yield from _cut_runs(chunk)


def _cut_runs(chunk: str) -> Iterator[str]:
    """Cut inside each run of blanks or non-blanks after every 25,000 of its characters."""
    begin = 0
    for run in _RUN.finditer(chunk):
        for cut in range(run.start() + CUT_RUN_CHARS, run.end(), CUT_RUN_CHARS):
            yield chunk[begin:cut]
            begin = cut
    yield chunk[begin:]
