"""Independent checks over everything stored. Each returns its finding; none repairs, none stops at the first."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from eagle3gen.ledger import books, reading
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.ids import decode_ids
from eagle3gen.ledger.money import ZERO, Amount
from eagle3gen.ledger.reading import DatasetTotals, SampleRow
from eagle3gen.records import Verdict, usd
from eagle3gen.tokens.loading import Tokenizer

EXAMPLES_MAX = 20
"""Prompt ids kept per finding, so that a bad run does not fill the memory."""


@dataclass(slots=True)
class Finding:
    """What one check found: how many samples, and the first few of them."""

    check: str
    count: int = 0
    prompt_ids: list[int] = field(default_factory=list)

    def add(self, prompt_id: int) -> None:
        self.count += 1
        if len(self.prompt_ids) < EXAMPLES_MAX:
            self.prompt_ids.append(prompt_id)


@dataclass(slots=True)
class Audit:
    """The result over all samples; clean if nothing was found."""

    samples: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    billed_tokens: int = 0
    rebuilt_tokens: int = 0
    unbilled_samples: int = 0
    """Samples whose bill is unknown; they are in neither sum."""
    held: Amount = ZERO
    """What calls without a bill may have cost at most."""
    findings: dict[str, Finding] = field(default_factory=dict)

    def found(self, check: str, prompt_id: int) -> None:
        self.findings.setdefault(check, Finding(check)).add(prompt_id)

    def as_json(self) -> dict[str, Any]:
        billed = self.samples - self.unbilled_samples
        return {
            "samples": self.samples,
            "verdicts": dict(self.verdicts),
            "billed_tokens": self.billed_tokens,
            "rebuilt_tokens": self.rebuilt_tokens,
            "mean_difference": (self.billed_tokens - self.rebuilt_tokens) / billed if billed else None,
            "held_tokens": self.held.tokens,
            "held_usd": usd(self.held.usd),
            "findings": [
                {"check": f.check, "count": f.count, "prompt_ids": f.prompt_ids} for f in self.findings.values()
            ],
        }


Check = Callable[[SampleRow, Sequence[int], Tokenizer], bool]
"""True when the sample is as it should be."""


def _ends_with_end_token(sample: SampleRow, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    ended = bool(ids) and ids[-1] in tokenizer.family.end_of_turn_ids
    return ended is not (sample.finish_reason == "length")


def _closes_thinking_once(sample: SampleRow, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    closes = ids.count(tokenizer.family.think_close_id)
    return closes == 1 or (closes == 0 and sample.finish_reason == "length")


def _never_opens_thinking(_: SampleRow, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    return tokenizer.family.think_open_id not in ids


def _within_vocabulary(_: SampleRow, ids: Sequence[int], tokenizer: Tokenizer) -> bool:
    return all(0 <= i < tokenizer.vocabulary_size for i in ids)


def _bill_agrees(sample: SampleRow, ids: Sequence[int], _: Tokenizer) -> bool:
    return sample.completion_tokens == len(ids)


def _same_tokenizer(sample: SampleRow, _: Sequence[int], tokenizer: Tokenizer) -> bool:
    return sample.tokenizer_sha256 == tokenizer.sha256


CHECKS: dict[str, Check] = {
    "ends with the end token unless cut": _ends_with_end_token,
    "exactly one </think>": _closes_thinking_once,
    "no <think> in the output": _never_opens_thinking,
    "ids within the vocabulary": _within_vocabulary,
    "billed tokens equal rebuilt tokens": _bill_agrees,
    "rebuilt with the tokenizer of the dataset": _same_tokenizer,
}


async def audit(
    ledger: Ledger, datasets: Sequence[DatasetTotals], tokenizer: Callable[[DatasetTotals], Tokenizer]
) -> Audit:
    """Check every sample that an export would take, and the books of all datasets."""
    result = Audit(held=sum((d.held for d in datasets), start=ZERO))
    async with ledger.begin() as conn:
        for sentence in await books.audit_books(conn):
            result.found(f"books: {sentence}", 0)
    for dataset in datasets:
        seen: set[bytes] = set()
        async with ledger.begin() as conn:
            async for sample in reading.stream_samples(conn, dataset.id, frozenset(Verdict)):
                _count(result, sample)
                if sample.verdict.trainable:
                    _check(result, sample, tokenizer(dataset))
                digest = blake2b(sample.prompt_ids + sample.output_ids, digest_size=16).digest()
                if digest in seen:
                    result.found("no two samples are the same", sample.prompt_id)
                seen.add(digest)
    return result


def _count(result: Audit, sample: SampleRow) -> None:
    result.samples += 1
    result.verdicts[sample.verdict.value] += 1
    if sample.completion_tokens is None:
        result.unbilled_samples += 1
    else:
        result.billed_tokens += sample.completion_tokens
        result.rebuilt_tokens += sample.output_len


def _check(result: Audit, sample: SampleRow, tokenizer: Tokenizer) -> None:
    ids = decode_ids(sample.output_ids)
    for name, passes in CHECKS.items():
        if not passes(sample, ids, tokenizer):
            result.found(name, sample.prompt_id)
