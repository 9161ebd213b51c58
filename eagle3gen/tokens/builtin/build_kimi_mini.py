"""Build `builtin:kimi-mini`: Kimi-K2.5's shape with a small vocabulary of our own.

    python -m eagle3gen.tokens.builtin.build_kimi_mini

It has the true control ids, the true split pattern and a template written from the description of the original,
but its byte pairs are learned from `corpus.txt`, which was written for this project. Two files hold the same
encoding: `tiktoken.model` as the real folder has it, and `tokenizer.json` for checking one against the other.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from eagle3gen.tokens.family import KIMI_K25

HERE = Path(__file__).parent
FOLDER = HERE / "kimi_mini"
RANKS = 3_000
NOT_SPECIAL = frozenset({"<think>", "</think>"}) | {s for s in KIMI_K25.control_ids if "tool_call" in s}
"""Control strings whose flag `special` is false in the original."""


def build(folder: Path = FOLDER) -> None:
    """Write all files of the folder; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = _train((HERE / "corpus.txt").read_text("utf-8"))
    vocabulary = sorted(trained.get_vocab().items(), key=lambda item: item[1])
    ranks = [_bytes_of(token) for token, _ in vocabulary]
    lines = (f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(ranks))
    (folder / "tiktoken.model").write_text("".join(lines), "ascii", newline="\n")
    controls = {KIMI_K25.reserved_name.format(id=i): i for i in range(163_584, 163_840)}
    named = set(KIMI_K25.control_ids.values())
    controls = {s: i for s, i in controls.items() if i not in named} | dict(KIMI_K25.control_ids)
    _write(folder / "tokenizer.json", _tokenizer_json(trained, dict(sorted(controls.items(), key=lambda c: c[1]))))
    _write(folder / "tokenizer_config.json", _tokenizer_config())
    sha256 = hashlib.sha256((folder / "tiktoken.model").read_bytes()).hexdigest()
    config = {"model_type": "kimi_k25", "vocab_size": KIMI_K25.vocabulary_size, "ranks_sha256": sha256}
    _write(folder / "config.json", config)
    _write(folder / "generation_config.json", {"eos_token_id": KIMI_K25.id("<|im_end|>")})


def _train(text: str) -> Tokenizer:
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(KIMI_K25.pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=RANKS,
        min_frequency=2,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def _bytes_of(token: str) -> bytes:
    return bytes(_BYTE_OF[character] for character in token)


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes, which the byte-level pre-tokenizer uses."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    stand_ins = dict(zip(map(chr, printable), printable, strict=True))
    others = [b for b in range(256) if b not in set(printable)]
    return stand_ins | {chr(256 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _tokenizer_json(trained: Tokenizer, controls: dict[str, int]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(trained.to_str())
    # Added tokens with gaps before them are renumbered silently; those that the vocabulary knows keep their ids.
    data["model"]["vocab"].update(controls)
    data["added_tokens"] = [
        {
            "id": i,
            "content": s,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": s not in NOT_SPECIAL,
        }
        for s, i in controls.items()
        if s in KIMI_K25.control_ids
    ]
    return data


def _tokenizer_config() -> dict[str, Any]:
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    added = {str(i): {"content": s, **flags, "special": s not in NOT_SPECIAL} for s, i in KIMI_K25.control_ids.items()}
    return {
        "added_tokens_decoder": added,
        "bos_token": "[BOS]",
        "eos_token": "[EOS]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 262_144,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8", newline="\n")


if __name__ == "__main__":
    build()
