"""The start-up probe: refuse a tokenizer that is not the model's, before the first call is paid."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from eagle3gen.errors import InputError, TokenizerRefused
from eagle3gen.tokens.encoding import Ranks
from eagle3gen.tokens.family import Family

if TYPE_CHECKING:
    from eagle3gen.tokens.loading import Tokenizer

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


def probe(folder: Path, family: Family, ranks: Ranks, controls: Mapping[str, int]) -> None:
    """Compare the files with what the family is known to have. Raises TokenizerRefused with the first difference."""
    for control, expected in family.control_ids.items():
        found = controls.get(control)
        if found is None:
            raise TokenizerRefused(
                f"{folder} has no {control}, which is {expected} in {family.name}; use its own files"
            )
        if found != expected:
            raise TokenizerRefused(
                f"{control} is {found} in {folder} but {expected} in {family.name}: every sample would be wrong;"
                " use the model's own tokenizer files"
            )
    strangers = [s for s, i in controls.items() if not family.base_vocabulary <= i < family.vocabulary_size]
    if strangers:
        raise TokenizerRefused(f"{folder} gives {strangers[0]} an id outside the control ids of {family.name}")
    if sorted(ranks.table.values()) != list(range(len(ranks.table))):
        raise TokenizerRefused(f"{folder / 'tiktoken.model'} has gaps or doubles in its ranks; copy the file again")
    if len(ranks.table) > family.base_vocabulary:
        raise TokenizerRefused(
            f"{folder / 'tiktoken.model'} has {len(ranks.table):,} ranks, more than {family.name} has room for"
        )
    missing = [b for b in range(256) if bytes([b]) not in ranks.table]
    if missing:
        raise TokenizerRefused(f"{folder / 'tiktoken.model'} lacks the byte {missing[0]}; copy the file again")


def probe_encoding(folder: Path, tokenizer: "Tokenizer") -> None:
    """Encode what is known, as text and as a prompt. Raises TokenizerRefused."""
    encoding, family = tokenizer.encoding, tokenizer.family
    for control, expected in family.control_ids.items():
        if encoding.encode_rendered(control) != [expected] or expected not in encoding.encode_rendered(f"a{control}b"):
            raise TokenizerRefused(f"{folder} does not read {control} as {expected} in a prompt")
        ordinary = encoding.encode_text(f"a{control}b")
        if any(i >= family.base_vocabulary for i in ordinary):
            raise TokenizerRefused(f"{folder} reads {control} as a control token in ordinary text")
    for text in KNOWN_TEXTS:
        if encoding.decode(encoding.encode_text(text)) != text:
            raise TokenizerRefused(f"{folder} does not give back the text {text!r} that it encoded")
    _probe_template(folder, tokenizer)


def _probe_template(folder: Path, tokenizer: "Tokenizer") -> None:
    try:
        rendered = tokenizer.template.render([{"role": "user", "content": SENTINEL}])
    except InputError as error:
        raise TokenizerRefused(f"{folder}: {error}") from error
    if SENTINEL not in rendered:
        raise TokenizerRefused(f"the chat template of {folder} changes the text of a message")
    if not rendered.endswith(tokenizer.family.generation_prompt):
        raise TokenizerRefused(
            f"the chat template of {folder} does not end with {tokenizer.family.generation_prompt}, as"
            f" {tokenizer.family.name} does"
        )
