"""The bundled tokenizer, and a second reading of it by another library."""

import shutil
from pathlib import Path

import pytest

from eagle3gen.tokens.family import KIMI_K25
from eagle3gen.tokens.loading import Tokenizer, folder_of, load_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return load_tokenizer("builtin:kimi-mini")


@pytest.fixture(scope="session")
def oracle():
    """`tokenizer.json` by the tokenizers library, without added tokens: ordinary text only."""
    import json

    from tokenizers import Tokenizer as Fast

    data = json.loads((folder_of("builtin:kimi-mini") / "tokenizer.json").read_text("utf-8"))
    fast = Fast.from_str(json.dumps({**data, "added_tokens": []}))
    return lambda text: fast.encode(text, add_special_tokens=False).ids


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy to damage."""
    copy = tmp_path / "kimi"
    shutil.copytree(folder_of("builtin:kimi-mini"), copy)
    return copy


CONTROL = KIMI_K25.control_ids
THINK, CLOSE, END = CONTROL["<think>"], CONTROL["</think>"], CONTROL["<|im_end|>"]
