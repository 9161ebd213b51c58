"""Loading a tokenizer folder: read, probe, or refuse."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3gen.errors import InputError, TokenizerRefused
from eagle3gen.records import Json
from eagle3gen.tokens.encoding import KimiEncoding
from eagle3gen.tokens.family import FAMILIES, Family, family_of
from eagle3gen.tokens.folder import Folder, folder_of, read_folder
from eagle3gen.tokens.probe import probe_encoding, probe_files, probe_template
from eagle3gen.tokens.template import Template

__all__ = ["Tokenizer", "decode", "folder_of", "load_tokenizer", "load_tokenizer_once"]

_lock = threading.Lock()
_loaded: dict[str, "Tokenizer"] = {}


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A model's tokenizer as this product uses it. Safe from any thread."""

    name: str
    family: Family
    encoding: KimiEncoding
    template: Template
    sha256: str = ""
    """Over ranks, control ids and template: whatever can change an id."""

    @property
    def vocabulary_size(self) -> int:
        return self.family.vocabulary_size

    def prompt_ids(self, messages: Sequence[Json], tools: Sequence[Json] = ()) -> list[int]:
        """What the server reads: the rendered prompt, control strings active.

        Raises InputError for messages that the template cannot render.
        """
        try:
            return self.encoding.encode_rendered(self.template.render(messages, tools))
        except UnicodeEncodeError as error:
            raise InputError("the prompt holds half of a character (a lone surrogate)") from error

    def decode(self, ids: Sequence[int]) -> str:
        return self.encoding.decode(ids)


def load_tokenizer(name: str, *, probe: bool = True) -> Tokenizer:
    """A folder, or `builtin:kimi-mini`, read and probed. Raises TokenizerRefused with the reason in one sentence.

    Without `probe` nothing is proved: only tests of what comes after the probe do that.
    """
    folder = read_folder(name)
    family = _family(folder)
    encoding = KimiEncoding(folder.ranks, folder.controls, family)
    template = Template(folder.template)
    if probe:
        probe_files(folder, family)
        probe_encoding(folder.path, encoding)
        probe_template(folder.path, family, template)
    return Tokenizer(name, family, encoding, template, folder.sha256)


def load_tokenizer_once(name: str) -> Tokenizer:
    """The same, kept for this process: for commands that meet a tokenizer in every row."""
    with _lock:
        if name not in _loaded:
            _loaded[name] = load_tokenizer(name)
        return _loaded[name]


def decode(name: str, ids: Sequence[int]) -> str:
    """The text of ids by the named tokenizer."""
    return load_tokenizer_once(name).decode(ids)


def _family(folder: Folder) -> Family:
    model_type = folder.config.get("model_type")
    family = family_of(str(model_type))
    if family is None:
        known = ", ".join(f.name for f in FAMILIES)
        raise TokenizerRefused(
            f"{folder.path} is of model type {model_type!r}, which is not known here (known: {known})"
        )
    return family
