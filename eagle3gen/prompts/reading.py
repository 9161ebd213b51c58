"""Files of prompts, row by row. A row that is no prompt is reported with its place and does not stop the rest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from eagle3gen.errors import InputError
from eagle3gen.prompts.kinds import SIGNATURE_BYTES, refuse_foreign
from eagle3gen.prompts.shapes import read_row
from eagle3gen.prompts.values import NotAPrompt, parse
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


@dataclass(frozen=True, slots=True)
class _Row:
    place: str
    value: Any
    """Parsed JSON, or NotAPrompt."""


def read_prompts(
    path: Path, *, strict: bool = False, on_problem: Callable[[Problem], None] = lambda _: None
) -> Iterator[Conversation]:
    """Every usable row of a file, in order: one row a line, or a JSON array of rows, or one row over many lines.

    Raises InputError for a file that cannot be read or is empty, and with `strict` for the first unusable row.
    """
    rows = 0
    for row in _rows(path):
        rows += 1
        try:
            if isinstance(row.value, NotAPrompt):
                raise row.value
            conversation = read_row(row.value, row.place)
        except NotAPrompt as error:
            problem = Problem(row.place, str(error))
            if strict:
                raise InputError(f"{problem}; mend it, or leave --strict out to skip such rows") from error
            on_problem(problem)
        else:
            yield conversation
    if rows == 0:
        raise InputError(f"{path} holds no rows")


def _rows(path: Path) -> Iterator[_Row]:
    try:
        with path.open("rb") as file:
            refuse_foreign(path, file.read(SIGNATURE_BYTES))
            file.seek(0)
            by_line = _is_by_line(path, file)
            file.seek(0)
            yield from _lines(path, file) if by_line else _document(path, file)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def _is_by_line(path: Path, file: BinaryIO) -> bool:
    """Whether each line is a row of its own, told by the first two lines that hold something.

    An array over many lines opens with a line that is no JSON by itself, and so does an object; a file of lines has
    two in a row, and one of them may be broken. An array in a single line is all there is.
    """
    head = [row.value for row in islice(_lines(path, file), 2)]
    if not head:
        return True
    if isinstance(head[0], list):
        return len(head) > 1
    if not isinstance(head[0], NotAPrompt):
        return True
    file.seek(0)
    if file.read(1024).removeprefix(BOM).lstrip()[:1] == b"[":
        return False
    return len(head) > 1 and isinstance(head[1], dict)


def _lines(path: Path, file: BinaryIO) -> Iterator[_Row]:
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        place = f"{path.name} line {number}"
        # Every line may begin with a mark: files that were joined have one in the middle.
        content = line.removeprefix(BOM)
        if _is_cut(line):
            while _is_cut(file.readline(LINE_BYTES_MAX)):
                pass
            yield _Row(place, NotAPrompt(f"it is longer than {LINE_BYTES_MAX // 2**20} MB"))
        elif content.strip():
            yield _Row(place, _value(content.rstrip()))


def _is_cut(line: bytes) -> bool:
    return len(line) == LINE_BYTES_MAX and not line.endswith(b"\n")


def _document(path: Path, file: BinaryIO) -> Iterator[_Row]:
    document = _value(file.read().removeprefix(BOM))
    if not isinstance(document, NotAPrompt):
        rows = document if isinstance(document, list) else [document]
        yield from (_Row(f"{path.name} row {number}", row) for number, row in enumerate(rows, 1))
    elif path.suffix == ".jsonl":
        # Its name says what it should be, so its lines are what the user looks at.
        file.seek(0)
        yield from _lines(path, file)
    else:
        raise InputError(f"{path} cannot be used: {document}")


def _value(data: bytes) -> Any:
    try:
        return parse(data)
    except NotAPrompt as error:
        return error
