"""Loading a tokenizer folder: read, probe, or refuse."""

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from eagle3gen.errors import TokenizerRefused
from eagle3gen.records import Json
from eagle3gen.tokens.encoding import KimiEncoding, read_ranks
from eagle3gen.tokens.family import FAMILIES, Family, family_of
from eagle3gen.tokens.probe import probe, probe_encoding
from eagle3gen.tokens.template import Template

BUILTIN = "builtin:"
_lock = threading.Lock()
_loaded: dict[str, "Tokenizer"] = {}


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A model's tokenizer as this product uses it. Safe from any thread."""

    name: str
    family: Family
    encoding: KimiEncoding
    template: Template
    sha256: str = field(default="")
    """Over ranks, control ids and template: whatever can change an id."""

    @property
    def vocabulary_size(self) -> int:
        return self.family.vocabulary_size

    def prompt_ids(self, messages: Sequence[Json], tools: Sequence[Json] = ()) -> list[int]:
        """What the server reads: the rendered prompt, control strings active.

        Raises InputError for messages that the template cannot render.
        """
        return self.encoding.encode_rendered(self.template.render(messages, tools))

    def decode(self, ids: Sequence[int]) -> str:
        return self.encoding.decode(ids)


def load_tokenizer(name: str) -> Tokenizer:
    """A folder, or `builtin:kimi-mini`, read and probed. Raises TokenizerRefused with the reason in one sentence."""
    folder = _folder(name)
    family = _family(folder)
    config = _json(folder / "tokenizer_config.json")
    controls = _control_ids(folder, config)
    ranks = read_ranks(folder / "tiktoken.model")
    template = _template(folder, config)
    digest = hashlib.sha256()
    for part in (ranks.sha256, json.dumps(sorted(controls.items())), template):
        digest.update(part.encode())
        digest.update(b"\0")
    probe(folder, family, ranks, controls)
    encoding = KimiEncoding(ranks, controls, family)
    tokenizer = Tokenizer(name, family, encoding, Template(template), digest.hexdigest())
    probe_encoding(folder, tokenizer)
    return tokenizer


def load_tokenizer_once(name: str) -> Tokenizer:
    """The same, kept for this process: for commands that meet a tokenizer in every row."""
    with _lock:
        if name not in _loaded:
            _loaded[name] = load_tokenizer(name)
        return _loaded[name]


def decode(name: str, ids: Sequence[int]) -> str:
    """The text of ids by the named tokenizer."""
    return load_tokenizer_once(name).decode(ids)


def folder_of(name: str) -> Path:
    """Where the files of a tokenizer name are."""
    if name.startswith(BUILTIN):
        return Path(str(files("eagle3gen.tokens.builtin") / name.removeprefix(BUILTIN).replace("-", "_")))
    return Path(name)


def _folder(name: str) -> Path:
    folder = folder_of(name)
    if not folder.is_dir():
        hint = "the only builtin tokenizer is builtin:kimi-mini" if name.startswith(BUILTIN) else "name its folder"
        raise TokenizerRefused(f"there is no tokenizer folder {name}; {hint}")
    return folder


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise TokenizerRefused(
            f"{path.parent} holds no {path.name}; copy the model's whole tokenizer folder"
        ) from error
    except (OSError, ValueError) as error:
        raise TokenizerRefused(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerRefused(f"{path} is not a JSON object; copy the file again")
    return value


def _family(folder: Path) -> Family:
    model_type = _json(folder / "config.json").get("model_type")
    family = family_of(str(model_type))
    if family is None:
        known = ", ".join(f.name for f in FAMILIES)
        raise TokenizerRefused(f"{folder} is of model type {model_type!r}, which is not known here (known: {known})")
    return family


def _control_ids(folder: Path, config: dict[str, Any]) -> dict[str, int]:
    added = config.get("added_tokens_decoder")
    if not isinstance(added, dict) or not added:
        raise TokenizerRefused(f"{folder / 'tokenizer_config.json'} names no added tokens; copy the file again")
    try:
        return {str(token["content"]): int(i) for i, token in added.items()}
    except (TypeError, KeyError, ValueError) as error:
        raise TokenizerRefused(f"{folder / 'tokenizer_config.json'} has a damaged list of added tokens") from error


def _template(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text("utf-8")
    template = config.get("chat_template")
    if not isinstance(template, str):
        raise TokenizerRefused(f"{folder} holds no chat_template.jinja; copy the model's whole tokenizer folder")
    return template
