"""The simulator's own reading of a tokenizer folder: `tokenizer.json` by the tokenizers library."""

import base64
import codecs
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import tiktoken
from tokenizers import Tokenizer

CONTROLS = range(163_584, 163_840)
"""Kimi's slots for control ids; those without a name are called by their number."""
UNNAMED = "<|reserved_token_"
WINDOW = 400_000
RUN = 25_000
"""Kimi's own tokenizer class encodes at most so many characters, and of one run of (non-)blanks, at once."""


class Vocabulary:
    """Text to ids for answers, ids to bytes, and a fast encoder for prompts."""

    def __init__(self, folder: Path) -> None:
        data = json.loads((folder / "tokenizer.json").read_text("utf-8"))
        self.controls = {token["content"]: int(token["id"]) for token in data["added_tokens"]}
        self._names = {number: name for name, number in self.controls.items()}
        # Answers are ordinary text: a twin without added tokens can emit no control id.
        self._plain = Tokenizer.from_str(json.dumps({**data, "added_tokens": []}))
        ranks = {}
        for line in (folder / "tiktoken.model").read_bytes().splitlines():
            token, _, rank = line.partition(b" ")
            ranks[base64.b64decode(token)] = int(rank)
        self._bytes = {rank: token for token, rank in ranks.items()}
        pattern = next(p["pattern"]["Regex"] for p in data["pre_tokenizer"]["pretokenizers"] if p["type"] == "Split")
        named = set(self.controls.values())
        every = self.controls | {f"{UNNAMED}{i}|>": i for i in CONTROLS if i not in named}
        self._named, self._all = set(self.controls), set(every)
        self._prompts = tiktoken.Encoding("simulator", pat_str=pattern, mergeable_ranks=ranks, special_tokens=every)

    def encode(self, text: str) -> list[int]:
        """Ordinary ids of an answer's text."""
        return list(self._plain.encode(text, add_special_tokens=False).ids)

    def text(self, ids: Sequence[int]) -> str:
        """Text of ordinary ids, as a server shows it: a character that is cut becomes U+FFFD."""
        return b"".join(map(self._bytes.__getitem__, ids)).decode("utf-8", "replace")

    def spelled(self, ids: Sequence[int]) -> str:
        """The same with control ids among them, as a server shows them that parses nothing."""
        parts, run = [], [b""]
        for number in ids:
            if (name := self._names.get(number)) is None:
                run.append(self._bytes[number])
            else:
                parts += [b"".join(run).decode("utf-8", "replace"), name]
                run = []
        return "".join([*parts, b"".join(run).decode("utf-8", "replace")])

    def prompt_ids(self, rendered: str) -> list[int]:
        """Ids of a rendered prompt, control strings active."""
        # Handing over hundreds of names costs more than most prompts do.
        active = self._all if UNNAMED in rendered else self._named
        parts = [rendered] if len(rendered) <= RUN else _parts(rendered)
        ids: list[int] = []
        for part in parts:
            ids += self._prompts.encode(part, allowed_special=active, disallowed_special=())
        return ids

    def pieces(self, ids: Sequence[int], size: int) -> list[tuple[str, int]]:
        """The text of ordinary ids as it grows by `size` ids at a time, with how many ids were used.

        A character that is not complete waits for the rest of its bytes.
        """
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        pieces = []
        for start in range(0, len(ids), size):
            end = min(start + size, len(ids))
            text = decode(b"".join(map(self._bytes.__getitem__, ids[start:end])), final=end == len(ids))
            if text:
                pieces.append((text, end))
        return pieces


def _parts(text: str) -> Iterator[str]:
    """A long text as Kimi's class cuts it: no part holds more than RUN characters of one run."""
    for start in range(0, len(text), WINDOW):
        part = ""
        for run in re.findall(r"\s+|\S+", text[start : start + WINDOW]):
            pieces = [run[i : i + RUN] for i in range(0, len(run), RUN)]
            for piece in pieces[:-1]:
                yield part + piece
                part = ""
            part += pieces[-1]
        yield part
