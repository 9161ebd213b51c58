"""The start-up probe: refuse a tokenizer that is not the model's, before the first call is paid."""

from pathlib import Path

from eagle3gen.errors import InputError, TokenizerRefused
from eagle3gen.records import Json
from eagle3gen.telemetry import logger
from eagle3gen.tokens.encoding import KimiEncoding
from eagle3gen.tokens.family import Family
from eagle3gen.tokens.folder import Folder
from eagle3gen.tokens.template import Template
from eagle3gen.tokens.typescript import tools_to_typescript

OWN_RANKS_MAX = 100_000
"""A larger vocabulary claims to be the model's own and must be it; a smaller one is somebody's for tests."""
SENTINEL = "Sentinel 42: naïve 你好，世界 👍🏽\n\n  def f(x):\t# \u00e9\n"
KNOWN_TEXTS = (
    SENTINEL,
    "",
    " leading and trailing \n",
    "1234567 3.14 don't WE'LL",
    "用Python写一个function，GPUを2枚使う。",
    "\r\n\t\u00a0\u200d\u2028",
    "مرحبا नमस्ते ไทย 안녕하세요",
)
SENTINEL_CALL = {"name": "probe", "arguments": '{ "b":1,"a": "é 你" }'}
SENTINEL_TOOL = {"type": "function", "function": {"name": "probe", "parameters": {"type": "object", "properties": {}}}}

log = logger(__name__)


def probe_files(folder: Folder, family: Family) -> None:
    """Compare the files with what the family is known to have. Raises TokenizerRefused with the first difference."""
    _probe_controls(folder, family)
    _probe_sizes(folder, family)
    _probe_ranks(folder, family)


def _probe_controls(folder: Folder, family: Family) -> None:
    for control, expected in family.control_ids.items():
        found = folder.controls.get(control)
        if found is None:
            raise TokenizerRefused(
                f"{folder.path} has no {control}, which is {expected} in {family.name}; use its own files"
            )
        if found != expected:
            raise TokenizerRefused(
                f"{control} is {found} in {folder.path} but {expected} in {family.name}: every sample would be wrong;"
                " use the model's own tokenizer files"
            )
    controls = range(family.base_vocabulary, family.vocabulary_size)
    if stranger := next((s for s, i in folder.controls.items() if i not in controls), None):
        raise TokenizerRefused(f"{folder.path} gives {stranger} an id outside the control ids of {family.name}")


def _probe_sizes(folder: Folder, family: Family) -> None:
    nested = folder.config.get("text_config")
    for config in (folder.config, nested if isinstance(nested, dict) else {}):
        size = config.get("vocab_size", family.vocabulary_size)
        if size != family.vocabulary_size:
            raise TokenizerRefused(
                f"{folder.path / 'config.json'} has a vocabulary of {size} but {family.name} has"
                f" {family.vocabulary_size}; use the model's own files"
            )
    ends = folder.generation_config.get("eos_token_id")
    ends = ends if isinstance(ends, list) else [ends]
    end = family.id(family.end_of_turn)
    if ends != [None] and end not in ends:
        raise TokenizerRefused(
            f"{folder.path / 'generation_config.json'} ends a turn with {ends[0]} but {family.name} ends it with"
            f" {family.end_of_turn}, {end}; use the model's own files"
        )


def _probe_ranks(folder: Folder, family: Family) -> None:
    path, table = folder.path / "tiktoken.model", folder.ranks.table
    if missing := [b for b in range(256) if bytes([b]) not in table]:
        raise TokenizerRefused(f"{path} lacks the byte {missing[0]}; copy the file again")
    if sorted(table.values()) != list(range(len(table))):
        raise TokenizerRefused(f"{path} has gaps or doubles in its ranks; copy the file again")
    if len(table) > family.base_vocabulary:
        raise TokenizerRefused(f"{path} has {len(table):,} ranks, more than {family.name} has room for")
    # A folder of our own says which ranks it was made with; two that changed places would alter no count.
    expected = folder.config.get("ranks_sha256")
    if expected is None and len(table) > OWN_RANKS_MAX:
        expected = family.ranks_sha256
    if expected is None:
        log.warning("tokens.ranks_unknown", file=str(path), ranks=len(table), sha256=folder.ranks.sha256)
    elif expected != folder.ranks.sha256:
        raise TokenizerRefused(
            f"{path} has the sha256 {folder.ranks.sha256[:12]} but should have {str(expected)[:12]}: it is damaged or"
            " another model's; copy the file again"
        )


def probe_encoding(folder: Path, encoding: KimiEncoding) -> None:
    """Encode what is known, as text and as a prompt. Raises TokenizerRefused."""
    family = encoding.family
    for control, expected in family.control_ids.items():
        alone, inside = encoding.encode_rendered(control), encoding.encode_rendered(f"a{control}b")
        if alone != [expected] or inside.count(expected) != 1:
            raise TokenizerRefused(f"{folder} does not read {control} as {expected} in a prompt")
        ordinary = encoding.encode_text(f"a{control}b")
        if any(i >= family.base_vocabulary for i in ordinary):
            raise TokenizerRefused(f"{folder} reads {control} as a control token in ordinary text")
    for text in KNOWN_TEXTS:
        if encoding.decode(encoding.encode_text(text)) != text:
            raise TokenizerRefused(f"{folder} does not give back the text {text!r} that it encoded")


def probe_template(folder: Path, family: Family, template: Template) -> None:
    """Render a conversation whose every text is known. Raises TokenizerRefused."""
    texts = {part: f"\n {part}: {SENTINEL}" for part in ("system", "user", "thinking", "answer", "result")}
    tool_id = family.tool_id.format(name=SENTINEL_CALL["name"], index=0)
    messages: list[Json] = [
        {"role": "system", "content": texts["system"]},
        {"role": "user", "content": texts["user"]},
        {
            "role": "assistant",
            "content": texts["answer"],
            "reasoning": texts["thinking"],
            "tool_calls": [{"id": tool_id, "type": "function", "function": SENTINEL_CALL}],
        },
        {"role": "tool", "tool_call_id": tool_id, "content": texts["result"]},
    ]
    try:
        rendered = template.render(messages, [SENTINEL_TOOL])
    except InputError as error:
        raise TokenizerRefused(f"{folder}: {error}; use the model's own template") from error
    texts |= {"arguments": SENTINEL_CALL["arguments"], "tools": tools_to_typescript([SENTINEL_TOOL]) or ""}
    for part, text in texts.items():
        if text not in rendered:
            raise TokenizerRefused(
                f"the chat template of {folder} changes or drops the {part} of a conversation, which"
                f" {family.name} shows as they are; use the model's own template"
            )
    if not rendered.endswith(family.generation_prompt):
        raise TokenizerRefused(
            f"the chat template of {folder} does not end with {family.generation_prompt}, as {family.name} does"
        )
