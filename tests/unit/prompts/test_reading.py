"""Files become rows: what a file is, is told by what it holds, and one bad row harms no other."""

import gzip
import json
from pathlib import Path

import orjson
import pytest

from eagle3gen.errors import InputError
from eagle3gen.prompts import reading
from eagle3gen.prompts.kinds import KINDS
from eagle3gen.prompts.reading import Problem, read_prompts

A, B = b'{"prompt": "A"}', b'{"prompt": "B"}'


class Reader:
    """Writes a file, reads it, and keeps what was reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.sources: list[str] = []

    def __call__(self, name: str, data: bytes, *, strict: bool = False) -> list[str]:
        path = self.folder / name
        path.write_bytes(data)
        found = list(read_prompts(path, strict=strict, on_problem=lambda problem: self.problems.append(str(problem))))
        self.sources = [conversation.source for conversation in found]
        return [conversation.messages[-1]["content"] for conversation in found]

    def refusal(self, name: str, data: bytes, *, strict: bool = False) -> str:
        with pytest.raises(InputError) as caught:
            self(name, data, strict=strict)
        return str(caught.value)


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.txt", "a"])
@pytest.mark.parametrize(
    "data",
    [
        A + b"\n" + B + b"\n",
        A + b"\n" + B,
        A + b"\r\n" + B + b"\r\n",
        b"\n\n" + A + b"\n \r\n\n" + B + b"\n\n",
        reading.BOM + A + b"\n" + B,
        reading.BOM + A + b"\n" + reading.BOM + B,
        b"[" + A + b"," + B + b"]",
        b"[" + A + b"," + B + b"]\n",
        b"[\n  " + A + b",\n  " + B + b"\n]\n",
        b"[\n" + A + b"\n,\n" + B + b"\n]\n",
        b"\n [" + A + b",\r\n" + B + b"]",
        reading.BOM + b"[\n" + A + b",\n" + B + b"]",
    ],
)
def test_lines_and_arrays_are_told_by_what_a_file_holds(read, name, data) -> None:
    """One row a line or an array of rows, under any name, with or without marks and empty lines."""
    assert read(name, data) == ["A", "B"]
    assert read.problems == []


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.traj"])
def test_an_object_over_many_lines_is_one_row(read, name) -> None:
    """A pretty-printed object is a row, whatever its nesting."""
    row = {"info": {"a": {}}, "messages": [{"role": "user", "content": "A"}]}
    assert read(name, json.dumps(row, indent=2).encode()) == ["A"]
    assert read.sources == [f"{name} row 1"]


def test_rows_in_lines_are_placed_by_their_line(read) -> None:
    """The place of a row is its line in the file, empty ones counted."""
    read("a.jsonl", b"\n" + A + b"\n\n" + B)
    assert read.sources == ["a.jsonl line 2", "a.jsonl line 4"]


def test_rows_in_an_array_are_placed_by_their_number(read) -> None:
    """The place of a row of an array is its number, from 1."""
    read("a.json", b"[\n" + A + b",\n" + B + b"]")
    assert read.sources == ["a.json row 1", "a.json row 2"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize("broken", [b'{"prompt": "A', b"hello", b'{"a": [', b"\xff\xfd\x00", b"{'prompt': 'A'}"])
@pytest.mark.parametrize("first", [True, False])
def test_a_broken_line_harms_no_other(read, name, broken, first) -> None:
    """A line that is no JSON is reported with file and line, and the rest is read, be it first or last."""
    lines = [broken, A, B] if first else [A, B, broken]
    assert read(name, b"\n".join(lines)) == ["A", "B"]
    assert len(read.problems) == 1
    assert read.problems[0].startswith(f"{name} line {1 if first else 3}: it is not JSON (")


def test_a_bracket_alone_in_the_first_line_of_lines_is_a_problem_of_that_line(read) -> None:
    """A .jsonl file that begins with [ and is no array is read line by line."""
    assert read("a.jsonl", b"[\n" + A + b"\n" + B) == ["A", "B"]
    assert read.problems == ["a.jsonl line 1: it is not JSON (Expecting value at column 2)"]


def test_a_list_in_the_first_of_many_lines_is_a_problem_of_that_line(read) -> None:
    """A list that is a line of its own is one bad row, and not the whole file."""
    assert read("a.json", b"[7]\n" + A) == ["A"]
    assert read.problems == ["a.json line 1: it is a list, not an object"]


def test_lines_are_lines_however_many_are_broken_at_the_start(read) -> None:
    """A .jsonl file whose first lines are all broken is still read line by line."""
    assert read("a.jsonl", b"{\n{\n{\n" + A) == ["A"]
    assert [problem.split(":")[0] for problem in read.problems] == [f"a.jsonl line {n}" for n in (1, 2, 3)]


def test_a_broken_line_says_what_was_expected(read) -> None:
    """The reason names the column at which the line stops being JSON."""
    read("a.jsonl", A + b'\n{"prompt" "B"}')
    assert read.problems == ["a.jsonl line 2: it is not JSON (Expecting ':' delimiter at column 11)"]


def test_every_bad_row_is_reported(read) -> None:
    """Rows of an array that are no prompts are reported with file and number."""
    assert read("a.json", b'[7, {"prompt": ""}, ' + A + b", null]") == ["A"]
    assert read.problems == [
        "a.json row 1: it is a number, not an object",
        "a.json row 2: its prompt field is empty",
        "a.json row 4: it is empty, not an object",
    ]


def test_strict_stops_at_the_first_bad_row(read) -> None:
    """With strict, the first bad row ends the reading, and the sentence says what to do."""
    sentence = read.refusal("a.jsonl", A + b"\n7\n" + B, strict=True)
    assert sentence == "a.jsonl line 2: it is a number, not an object; mend it, or leave --strict out to skip such rows"
    assert read.problems == []


def test_strict_gives_the_rows_before(tmp_path) -> None:
    """Rows before the bad one have been given when strict stops."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(A + b"\n7\n")
    rows = read_prompts(path, strict=True)
    assert next(rows).messages[0]["content"] == "A"
    with pytest.raises(InputError):
        next(rows)


def test_reading_is_lazy(tmp_path) -> None:
    """A file of lines is not read whole before its first row is given."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([A] * 3 + [b"broken"] * 3))
    problems: list[Problem] = []
    assert next(read_prompts(path, on_problem=problems.append)).source == "a.jsonl line 1"
    assert problems == []


@pytest.mark.parametrize("layout", ["lines", "array"])
@pytest.mark.parametrize(
    "bad",
    [
        b'{"prompt": "caf\xe9"}',
        b'{"prompt": "\\ud83d"}',
        b'{"prompt": "x", "tools": {"name": "f", "parameters": {"default": NaN}}}',
    ],
    ids=["latin-1", "surrogate", "NaN"],
)
def test_a_value_that_cannot_be_sent_refuses_its_own_row_only(read, layout, bad) -> None:
    """A foreign byte, half a character or NaN in a used field costs one row, in an array too."""
    rows = [A, bad, B]
    data = b"\n".join(rows) if layout == "lines" else b"[" + b",".join(rows) + b"]"
    assert read("a.json", data) == ["A", "B"]
    assert [problem.split(":")[0] for problem in read.problems] == [
        f"a.json {'line' if layout == 'lines' else 'row'} 2"
    ]


@pytest.mark.parametrize("layout", ["lines", "array"])
@pytest.mark.parametrize("value", [b"NaN", b"-Infinity", b'"\\ud83d"', b'"caf\xe9"', b"1" * 5000])
def test_a_value_that_is_not_used_refuses_nothing(read, layout, value) -> None:
    """Whatever stands in a field that is not sent does not matter."""
    rows = [A, b'{"prompt": "B", "score": ' + value + b"}"]
    data = b"\n".join(rows) if layout == "lines" else b"[" + b",".join(rows) + b"]"
    assert read("a.json", data) == ["A", "B"]
    assert read.problems == []


@pytest.mark.parametrize("bracket", [b"[", b'{"a":'])
def test_endless_nesting_is_a_problem_of_its_line(read, bracket) -> None:
    """100,000 brackets are reported and do not end the reading."""
    assert read("a.jsonl", A + b"\n" + bracket * 100_000 + b"\n" + B) == ["A", "B"]
    assert read.problems == ["a.jsonl line 2: it is nested too deeply to be read"]


def test_endless_nesting_alone_is_refused(read) -> None:
    """A file of brackets only is refused in a sentence."""
    assert "nested too deeply" in read.refusal("a.json", b"[" * 100_000)


@pytest.mark.parametrize("length", [150, 250, 400, 2000])
def test_an_endless_line_is_a_problem_of_its_own(read, monkeypatch, length) -> None:
    """A line above the limit is skipped to its end, however long, and the rest is read."""
    monkeypatch.setattr(reading, "LINE_BYTES_MAX", 100)
    assert read("a.jsonl", A + b"\n" + b"x" * length + b"\n" + B) == ["A", "B"]
    assert len(read.problems) == 1
    assert read.problems[0].startswith("a.jsonl line 2: it is longer than ")


def test_a_line_of_just_the_limit_is_read(read, monkeypatch) -> None:
    """The limit itself is allowed, line end included."""
    monkeypatch.setattr(reading, "LINE_BYTES_MAX", len(A) + 1)
    assert read("a.jsonl", A + b"\n" + B) == ["A", "B"]


@pytest.mark.parametrize("data", [b"", b"\n\n \n", reading.BOM, reading.BOM + b"\n", b"[]", b"[\n]"])
def test_a_file_without_rows_is_refused(read, data) -> None:
    """An empty file, or an empty array, is refused in a sentence."""
    assert read.refusal("a.json", data).endswith("a.json holds no rows")
    assert read.problems == []


def test_a_missing_file_is_refused(tmp_path) -> None:
    """A file that does not exist is refused with its name."""
    with pytest.raises(InputError, match=r"cannot read .*no\.jsonl: No such file"):
        list(read_prompts(tmp_path / "no.jsonl"))


def test_a_folder_is_refused(tmp_path) -> None:
    """A folder is refused with its name."""
    with pytest.raises(InputError, match="Is a directory"):
        list(read_prompts(tmp_path))


def test_an_array_that_is_cut_off_is_refused_with_the_place(read) -> None:
    """An array that ends in the middle is refused, and the sentence says where."""
    sentence = read.refusal("a.json", b"[\n" + A + b",\n" + B[:-4])
    assert "a.json cannot be used: it is not JSON (" in sentence
    assert "at line 3 column" in sentence


def test_plain_text_is_refused(read) -> None:
    """A text file is refused in one sentence and not line by line."""
    assert "a.txt cannot be used: it is not JSON" in read.refusal("a.txt", b"Hello\nthere\nworld\n")
    assert read.problems == []


@pytest.mark.parametrize("signature", KINDS, ids=lambda signature: signature.hex())
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_another_kind_of_file_is_refused_in_a_sentence(read, name, signature) -> None:
    """Compressed files, Parquet, Arrow and UTF-16 are told by their first bytes, whatever their name."""
    assert read.refusal(name, signature + b"\x00" * 50).endswith(f"{name} {KINDS[signature]}")
    assert read.problems == []


def test_a_gzip_file_is_known(read) -> None:
    """A real gzip file is refused as one."""
    assert "gzip" in read.refusal("a.jsonl", gzip.compress(A))


def test_a_utf_16_file_is_known(read) -> None:
    """A file that was saved as UTF-16 is refused as one."""
    assert "UTF-16" in read.refusal("a.json", A.decode().encode("utf-16"))


def test_a_problem_is_its_place_and_its_sentence() -> None:
    """A problem prints as place and sentence."""
    assert (
        str(Problem("a.jsonl line 3", "it is a list, not an object")) == "a.jsonl line 3: it is a list, not an object"
    )


def test_scripts_and_escapes_read_the_same(read) -> None:
    """Escaped and plain Unicode give the same text."""
    text = "日本語 한국어 हिन्दी العربية 🙂"
    escaped, plain = json.dumps({"prompt": text}).encode(), orjson.dumps({"prompt": text})
    assert read("a.jsonl", escaped + b"\n" + plain) == [text, text]
