"""Files of prompts, row by row. A row that is no prompt is reported with its place and does not stop the rest."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from eagle3gen.errors import InputError
from eagle3gen.prompts.shapes import NotAPrompt, read_row
from eagle3gen.records import Conversation

LINE_BYTES_MAX = 64 * 2**20
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Problem:
    """A row that cannot be used: where, and why."""

    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


def read_prompts(
    path: Path, *, strict: bool = False, on_problem: Callable[[Problem], None] = lambda _: None
) -> Iterator[Conversation]:
    """Every usable row of a .jsonl or .json file (an array, or one object), in order.

    Raises InputError for a file that cannot be read or is empty, and with `strict` for the first unusable row.
    """
    rows = 0
    for place, row in _rows(path):
        rows += 1
        if isinstance(row, NotAPrompt):
            problem = Problem(place, str(row))
        else:
            try:
                yield read_row(row, place)
                continue
            except NotAPrompt as error:
                problem = Problem(place, str(error))
        if strict:
            raise InputError(f"{problem}; mend it, or leave --strict out to skip such rows")
        on_problem(problem)
    if rows == 0:
        raise InputError(f"{path} holds no rows")


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, parsed row or why it is none) of every row."""
    try:
        with path.open("rb") as file:
            start = file.read(1024).removeprefix(BOM).lstrip()
            file.seek(0)
            # An array, or an object over several lines, is one JSON document; anything else is one row a line.
            if path.suffix != ".jsonl" and (start.startswith(b"[") or b"\n" in start.split(b"}")[0].rstrip()):
                yield from _document(path, file.read())
            else:
                yield from _lines(path, file)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _lines(path: Path, file: Any) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        if number == 1:
            line = line.removeprefix(BOM)
        if not line.strip():
            continue
        place = f"{path.name} line {number}"
        if len(line) == LINE_BYTES_MAX:
            raise InputError(f"{place} is longer than {LINE_BYTES_MAX // 2**20} MB; this is no file of prompts")
        yield place, _parse(line)


def _parse(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        # orjson refuses lone surrogates and NaN; Python's parser tells the user more about the rest.
        try:
            json.loads(line)
        except UnicodeDecodeError:
            return NotAPrompt("it is not UTF-8 text")
        except ValueError as plain:
            return NotAPrompt(f"it is not JSON ({plain})")
        return NotAPrompt(f"it is not standard JSON ({error})")


def _document(path: Path, data: bytes) -> Iterator[tuple[str, Any]]:
    document = _parse(data.removeprefix(BOM))
    if isinstance(document, NotAPrompt):
        raise InputError(f"{path}: {document}; a file of one object per line needs the ending .jsonl")
    if isinstance(document, list):
        for number, row in enumerate(document, 1):
            yield f"{path.name} row {number}", row
    else:
        yield f"{path.name} row 1", document
