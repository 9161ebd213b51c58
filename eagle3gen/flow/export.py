"""Samples out of the ledger as training rows that SpecForge and speculators read unchanged."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from eagle3gen.errors import ConfigurationError, InputError
from eagle3gen.ledger import reading
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.ids import decode_ids
from eagle3gen.ledger.reading import DatasetTotals, SampleRow
from eagle3gen.records import Verdict, usd

TRAINABLE = frozenset(v for v in Verdict if v.trainable)


def check_writable(directory: Path) -> None:
    """Make the directory and try to write there: before money is spent, not after. Raises ConfigurationError."""
    probe = directory / f".writable.{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigurationError(f"cannot write to {directory}: {error.strerror}; choose another --out") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One written file."""

    path: Path
    rows: int
    tokens: int
    """Supervised tokens: those with mask 1."""
    left_out: int
    """Samples whose verdict was not asked for."""


async def export_tokens(
    ledger: Ledger,
    datasets: Sequence[DatasetTotals],
    directory: Path,
    *,
    decode: Callable[[str, Sequence[int]], str],
    verdicts: Collection[Verdict] = TRAINABLE,
) -> Exported:
    """Write `directory/tokens.jsonl`, one row per sample; complete or not there at all.

    `decode(tokenizer, ids)` gives a row's `text`. The mask is 0 on the prompt and 1 on every emitted token,
    the end token included, unshifted. Raises InputError when no sample passes, ConfigurationError when the
    directory cannot be written.
    """
    path = directory / "tokens.jsonl"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    rows = tokens = 0
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            for dataset in datasets:
                async with ledger.begin() as conn:
                    async for sample in reading.stream_samples(conn, dataset.id, verdicts):
                        row = token_row(dataset, sample, decode)
                        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
                        rows += 1
                        tokens += sample.output_len
            _to_disk(file)
        if rows == 0:
            raise InputError(_nothing_to_export(datasets, verdicts))
        unfinished.replace(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; choose another --out") from error
    finally:
        unfinished.unlink(missing_ok=True)
    samples = sum(sum(d.verdicts.values()) for d in datasets)
    return Exported(path=path, rows=rows, tokens=tokens, left_out=samples - rows)


def token_row(dataset: DatasetTotals, sample: SampleRow, decode: Callable[[str, Sequence[int]], str]) -> dict[str, Any]:
    """One row: what the trainers read (`input_ids`, `loss_mask`), and where it came from."""
    prompt_ids, output_ids = decode_ids(sample.prompt_ids), decode_ids(sample.output_ids)
    primary_id = f"{dataset.name}-{sample.key.hex()[:16]}"
    return {
        "id": f"{primary_id}_gen0",
        "primary_id": primary_id,
        "input_ids": prompt_ids + output_ids,
        "loss_mask": [0] * len(prompt_ids) + [1] * len(output_ids),
        "text": decode(dataset.tokenizer, prompt_ids + output_ids),
        "metadata": {
            "dataset": dataset.name,
            "source": sample.source,
            "generation_id": sample.generation_id,
            "verdict": sample.verdict.value,
            "finish_reason": sample.finish_reason,
            "host": sample.host,
            "model": sample.model,
            "usage": {
                "prompt_tokens": sample.prompt_tokens,
                "completion_tokens": sample.completion_tokens,
                "reasoning_tokens": sample.reasoning_tokens,
            },
            "cost_usd": None if sample.cost_usd is None else usd(sample.cost_usd),
            "prompt_tokens": len(prompt_ids),
            "tokenizer_sha256": sample.tokenizer_sha256,
            "sampling_params": {**dataset.sampling, "max_tokens": sample.max_tokens},
        },
    }


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _nothing_to_export(datasets: Sequence[DatasetTotals], verdicts: Collection[Verdict]) -> str:
    seen: dict[str, int] = {}
    for dataset in datasets:
        for verdict, count in dataset.verdicts.items():
            seen[verdict] = seen.get(verdict, 0) + count
    if not seen:
        return "nothing to export: the ledger holds no sample yet"
    have = ", ".join(f"{count} {verdict}" for verdict, count in sorted(seen.items()))
    asked = ", ".join(sorted(v.value for v in verdicts))
    return f"nothing to export: no sample has a verdict among {asked} (the ledger holds {have})"
