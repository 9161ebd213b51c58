"""A model's tokenizer folder: its files read, and nothing judged but whether they can be read."""

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from eagle3gen.errors import TokenizerRefused
from eagle3gen.tokens.encoding import Ranks, read_ranks

BUILTIN = "builtin:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What the files say."""

    path: Path
    config: dict[str, Any]
    generation_config: dict[str, Any]
    """Empty when the folder has none."""
    controls: dict[str, int]
    """The named control ids of tokenizer_config.json."""
    ranks: Ranks
    template: str

    @property
    def sha256(self) -> str:
        """Over ranks, control ids and template: whatever can change an id."""
        digest = hashlib.sha256()
        for part in (self.ranks.sha256, json.dumps(sorted(self.controls.items())), self.template):
            digest.update(part.encode())
            digest.update(b"\0")
        return digest.hexdigest()


def folder_of(name: str) -> Path:
    """Where the files of a tokenizer name are."""
    if name.startswith(BUILTIN):
        return Path(str(files("eagle3gen.tokens.builtin") / name.removeprefix(BUILTIN).replace("-", "_")))
    return Path(name)


def read_folder(name: str) -> Folder:
    """The folder's files. Raises TokenizerRefused for one that is missing or damaged."""
    path = folder_of(name)
    if not path.is_dir():
        hint = "the only builtin tokenizer is builtin:kimi-mini" if name.startswith(BUILTIN) else "name its folder"
        raise TokenizerRefused(f"there is no tokenizer folder {name}; {hint}")
    config = _object(path / "config.json")
    tokenizer_config = _object(path / "tokenizer_config.json")
    generation = path / "generation_config.json"
    return Folder(
        path=path,
        config=config,
        generation_config=_object(generation) if generation.exists() else {},
        controls=_controls(path / "tokenizer_config.json", tokenizer_config),
        ranks=read_ranks(path / "tiktoken.model"),
        template=_template(path, tokenizer_config),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        raise TokenizerRefused(
            f"{path.parent} holds no {path.name}; copy the model's whole tokenizer folder"
        ) from error
    except OSError as error:
        raise TokenizerRefused(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenizerRefused(f"{path} is not UTF-8 text; copy the file again") from error


def _object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise TokenizerRefused(f"{path} cannot be read as JSON ({error}); copy the file again") from error
    if not isinstance(value, dict):
        raise TokenizerRefused(f"{path} is not a JSON object; copy the file again")
    return value


def _controls(path: Path, config: dict[str, Any]) -> dict[str, int]:
    added = config.get("added_tokens_decoder")
    if not isinstance(added, dict) or not added:
        raise TokenizerRefused(f"{path} names no added tokens; copy the file again")
    controls: dict[str, int] = {}
    for number, token in added.items():
        spelled = token.get("content") if isinstance(token, dict) else None
        if not isinstance(spelled, str) or not spelled or not number.isdecimal():
            raise TokenizerRefused(f"{path} has a damaged list of added tokens, at {number!r}; copy the file again")
        if spelled in controls:
            raise TokenizerRefused(f"{spelled} is both {controls[spelled]} and {number} in {path}; copy the file again")
        if int(number) in controls.values():
            raise TokenizerRefused(f"{number} has two names in {path}; copy the file again")
        controls[spelled] = int(number)
    return controls


def _template(path: Path, config: dict[str, Any]) -> str:
    file = path / "chat_template.jinja"
    if file.is_file():
        return _text(file)
    template = config.get("chat_template")
    if isinstance(template, list):
        # Older folders name several templates; the default one is meant unless another is asked for.
        template = next((t.get("template") for t in template if isinstance(t, dict) and t.get("name") == "default"), "")
    if not isinstance(template, str) or not template:
        raise TokenizerRefused(f"{path} holds no chat_template.jinja; copy the model's whole tokenizer folder")
    return template
