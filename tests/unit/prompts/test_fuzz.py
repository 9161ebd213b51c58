"""Whatever JSON a file holds: a prompt that can be sent, or a sentence. Never another exception."""

import contextlib
import json
from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eagle3gen.errors import InputError
from eagle3gen.prompts.identity import content_key
from eagle3gen.prompts.reading import read_prompts
from eagle3gen.prompts.routing import choose_queue
from eagle3gen.prompts.shapes import READERS, read_row
from eagle3gen.prompts.turns import ROLES
from eagle3gen.prompts.values import NotAPrompt
from eagle3gen.records import Conversation

# Names that the readers look for, so that a random row reaches beyond the first check.
NAMES = st.sampled_from([
    *READERS, "system", "system_prompt", "input", "tools", "functions", "role", "from", "content", "value", "type",
    "text", "is_demo", "name", "function", "description", "parameters", "required", "properties", "items", "enum",
])  # fmt: skip
TEXTS = st.text(st.characters(), max_size=8) | st.sampled_from(
    [*ROLES, "text", "[]", '[{"name": "f"}]', "int", "\ud83d"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXTS, inner, max_size=5),
    max_leaves=20,
)
TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(list(ROLES)) | JSON, "content": TEXTS | JSON}, optional={"is_demo": JSON}
)
TOOL = st.fixed_dictionaries({"name": TEXTS | JSON, "parameters": JSON}, optional={"required": JSON, "function": JSON})
ROW = st.dictionaries(NAMES, JSON, max_size=5) | st.fixed_dictionaries(
    {"messages": st.lists(TURN | JSON, max_size=4)},
    optional={"tools": st.lists(TOOL | JSON, max_size=3), "system": JSON},
)


def can_be_sent(conversation: Conversation) -> None:
    assert len(content_key(conversation)) == 32
    choose_queue(conversation)
    sent = json.loads(orjson.dumps({"messages": list(conversation.messages), "tools": list(conversation.tools)}))
    assert sent["messages"][-1]["role"] in {"user", "system"}
    assert all(isinstance(message["content"], str) for message in sent["messages"])
    assert all(tool["type"] == "function" and tool["function"]["name"] for tool in sent["tools"])


@settings(max_examples=400, deadline=None)
@given(ROW | JSON)
def test_any_row_is_a_prompt_or_a_sentence(row) -> None:
    """A row gives messages that can be sent, or NotAPrompt with one printable line."""
    try:
        conversation = read_row(row, "here")
    except NotAPrompt as error:
        sentence = str(error)
    else:
        can_be_sent(conversation)
        return
    assert sentence.encode()
    assert "\n" not in sentence


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROW, max_size=4), st.booleans(), st.booleans(), st.sampled_from(["a.json", "a.jsonl"]))
def test_any_file_of_json_is_rows_or_a_sentence(tmp_path: Path, rows, as_array, ascii_only, name) -> None:
    """Every row of a file is given or reported, in lines and in an array."""
    path = tmp_path / name
    written = [json.dumps(row, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for row in rows]
    path.write_bytes(b"[" + b",\n".join(written) + b"]" if as_array else b"\n".join(written))
    problems: list[str] = []
    try:
        found = list(read_prompts(path, on_problem=lambda problem: problems.append(str(problem))))
    except InputError:
        assert rows == []
    else:
        assert len(found) + len(problems) == len(rows)
        for conversation in found:
            can_be_sent(conversation)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=12) | st.sampled_from([b"[", b"]", b"{", b"}", b"\n", b",", b'{"prompt": "A"}'])))
@example([b"\xef\xbb\xbf"])
@example([b"[" * 2000])
def test_any_bytes_are_rows_or_a_sentence(tmp_path: Path, pieces) -> None:
    """Bytes of any kind never raise anything but InputError."""
    path = tmp_path / "a.json"
    path.write_bytes(b"".join(pieces))
    with contextlib.suppress(InputError):
        list(read_prompts(path))


@pytest.mark.parametrize("depth", [60, 100, 250, 500, 900, 1000, 1023, 1100])
@pytest.mark.parametrize("field", ["tools", "messages", "prompt", "unused"])
def test_any_depth_is_a_prompt_or_a_sentence(tmp_path: Path, field, depth) -> None:
    """A field nested to any depth is read, or reported as the problem of its row."""
    nested = '{"items": ' * depth + "1" + "}" * depth
    tool = f'[{{"name": "f", "parameters": {nested}}}]' if field == "tools" else nested
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"prompt": "A"}}\n{{"instruction": "B", "{field}": {tool}}}\n')
    problems: list[str] = []
    found = list(read_prompts(path, on_problem=lambda problem: problems.append(str(problem))))
    assert len(found) + len(problems) == 2
    for conversation in found:
        can_be_sent(conversation)
