"""The simulator's own reading of a tokenizer folder: `tokenizer.json` by the tokenizers library."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer


class Vocabulary:
    """Text to ids for answers, ids to bytes, and a fast encoder for prompts."""

    def __init__(self, folder: Path) -> None:
        data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        controls = {token["content"]: int(token["id"]) for token in data["added_tokens"]}
        self.controls = controls
        # Answers are ordinary text: a twin without added tokens can emit no control id.
        self._plain = Tokenizer.from_str(json.dumps({**data, "added_tokens": []}))
        self._bytes = {}
        ranks = {}
        for line in (folder / "tiktoken.model").read_bytes().splitlines():
            token, _, rank = line.partition(b" ")
            ranks[base64.b64decode(token)] = int(rank)
        self._bytes = {rank: token for token, rank in ranks.items()}
        pattern = next(p["pattern"]["Regex"] for p in data["pre_tokenizer"]["pretokenizers"] if p["type"] == "Split")
        self._prompts = tiktoken.Encoding("simulator", pat_str=pattern, mergeable_ranks=ranks, special_tokens=controls)

    def encode(self, text: str) -> list[int]:
        """Ordinary ids of an answer's text."""
        return list(self._plain.encode(text, add_special_tokens=False).ids)

    def text(self, ids: Sequence[int]) -> str:
        """Text of ordinary ids, as a server shows it: a character that is cut becomes U+FFFD."""
        return b"".join(map(self._bytes.__getitem__, ids)).decode("utf-8", "replace")

    def count_prompt(self, rendered: str) -> int:
        """Tokens of a rendered prompt, control strings active."""
        return len(self._prompts.encode(rendered, allowed_special="all"))
