"""The simulator's parts, made once."""

import base64
import json
import random
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
import tiktoken

from eagle3gen.simulator.account import Key
from eagle3gen.simulator.asked import Asked
from eagle3gen.simulator.call import Ask, Call
from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.http import Connection, Request
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.simulator.voice import Answer, Voice
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


@pytest.fixture(scope="session")
def called():
    """Make a call that was answered: `called(prompt=3, completion=5, faults={"no_cost"})`."""

    def make(
        name="gen-1", *, model="a/b", host=HOSTS[0], prompt=2, completion=3, cached=0, fee=None, faults=(),
        key="key-1", conversation=b"", gone=False, **answer,
    ) -> Call:  # fmt: skip
        parts = {"reasoning": " r", "content": " c", "calls": [], "finish": "stop", "reasoning_tokens": 1}
        ids = array("I", bytes(4 * completion))
        request = Request(Connection(lambda _: None, gone=gone), "/", "", "POST", {})
        asked = Asked(model, [{"role": "user", "content": "x"}], [], 10**6, may_call_tools=False)
        ask = Ask(request, Key(key), name, 1.0, asked, prompt, b"", conversation or name.encode(), 1, random.Random(0))
        made = Answer(**{"ids": ids, "billed": completion, **parts, **answer})
        return Call(ask, host, frozenset(faults), made, cached, fee)

    return make


@pytest.fixture(scope="session")
def generation(called):
    """Make the entry of such a call."""
    from eagle3gen.simulator.books import _generation

    return lambda name="gen-1", *, ended=None, **fields: replace(
        made := _generation(called(name, **fields)), ended=made.ended if ended is None else ended
    )
