"""The simulator's parts, made once."""

import base64
import json
from pathlib import Path

import pytest
import tiktoken

from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.simulator.voice import Voice
from eagle3gen.tokens.loading import folder_of


@pytest.fixture(scope="session")
def folder() -> Path:
    return folder_of("builtin:kimi-mini")


@pytest.fixture(scope="session")
def vocabulary(folder) -> Vocabulary:
    return Vocabulary(folder)


@pytest.fixture(scope="session")
def voice(vocabulary) -> Voice:
    return Voice(vocabulary)


@pytest.fixture(scope="session")
def judge(folder) -> tiktoken.Encoding:
    """A third reading of the folder: ranks from `tiktoken.model`, the pattern from the project's own family."""
    from eagle3gen.tokens.family import KIMI_K25

    ranks = {}
    for line in (folder / "tiktoken.model").read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    added = json.loads((folder / "tokenizer.json").read_text("utf-8"))["added_tokens"]
    return tiktoken.Encoding(
        "judge", pat_str=KIMI_K25.pattern, mergeable_ranks=ranks, special_tokens={t["content"]: t["id"] for t in added}
    )
