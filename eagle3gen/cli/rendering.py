"""How things look: tables and sentences for people on stderr or stdout, JSON for programs. Nothing is done here."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import orjson

if TYPE_CHECKING:
    from eagle3gen.flow.audit import Audit
    from eagle3gen.flow.export import Exported
    from eagle3gen.ledger.reading import DatasetTotals


def say(sentence: str) -> None:
    """One sentence for the user, on stderr: stdout is for data."""
    click.echo(sentence, err=True)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line of stdout."""
    click.echo(orjson.dumps(value).decode())


def run_object(datasets: Sequence["DatasetTotals"], seconds: float, **more: Any) -> dict[str, Any]:
    """The object that `run --json` and `status --json` end with."""
    from eagle3gen.flow.status import as_json

    return {"datasets": as_json(datasets), "seconds": round(seconds, 3), **more}


def export_object(exported: "Exported") -> dict[str, Any]:
    return {
        "path": str(exported.path),
        "rows": exported.rows,
        "tokens": exported.tokens,
        "left_out": exported.left_out,
    }


def export_sentence(exported: "Exported") -> str:
    left_out = f"; {exported.left_out:,} samples left out for their verdict" if exported.left_out else ""
    return f"{exported.path}: {exported.rows:,} rows, {exported.tokens:,} trained tokens{left_out}"


def print_datasets(datasets: Sequence["DatasetTotals"]) -> None:
    """The status screen on stdout: a few short lines per dataset, the same on a terminal and in a pipe."""
    width = max((len(d.name) for d in datasets), default=0) + 2
    for d in datasets:
        counts = {
            "done": d.done,
            "in flight": d.in_flight,
            "pending": d.left,
            "rejected": d.rejected,
            "failed": d.failed,
        }
        states = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"
        cap = "no cap" if d.cap_tokens is None else f"cap {d.cap_tokens:,}"
        reserved = "".join(
            f", {count:,} {name}" for name, count in (("open", d.open_tokens), ("held", d.held_tokens)) if count
        )
        click.echo(f"{d.name:{width}}{d.state.value}{': ' + d.state_reason if d.state_reason else ''}")
        click.echo(f"{'':{width}}{d.prompts:,} prompts: {states}")
        click.echo(f"{'':{width}}{d.spent_tokens:,} tokens{reserved}, {cap}; {money(d)}")
        if d.verdicts:
            click.echo(f"{'':{width}}verdicts: {verdict_mix(d.verdicts)}")
        for sentence, count in d.errors.items():
            click.echo(f"{'':{width}}{count:,} not usable: {sentence}")


def say_ending(datasets: Sequence["DatasetTotals"], seconds: float) -> None:
    """How the run went, and for each dataset with work left, why."""
    from eagle3gen.flow.status import at_cap

    done, prompts = sum(d.done for d in datasets), sum(d.prompts for d in datasets)
    say(f"{done:,} of {prompts:,} prompts done in {duration(seconds)}.")
    for d in datasets:
        if d.left and at_cap(d):
            say(
                f"{d.name}: the cap of {d.cap_tokens:,} tokens admits no further call, which reserves up to"
                f" {d.smallest_pending_hold:,}; {d.left:,} prompts are left."
            )
            say("Raise --token-cap and run the same command again to go on.")
        elif d.left:
            why = f" ({d.state_reason})" if d.state_reason else ""
            say(f"{d.name} is {d.state.value}{why}; {d.left:,} prompts are left.")


def money(d: "DatasetTotals") -> str:
    """Cost in USD to a hundredth of a cent; a plus sign says that some calls have no price yet."""
    return f"${d.cost_usd:.4f}" + ("+" if d.unpriced_attempts else "")


def verdict_mix(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))


def print_audit(result: "Audit") -> None:
    """What the audit saw, one finding a line, on stdout."""
    click.echo(f"{result.samples:,} samples: {verdict_mix(result.verdicts)}")
    click.echo(f"billed {result.billed_tokens:,} tokens, rebuilt {result.rebuilt_tokens:,}")
    for finding in result.findings.values():
        examples = ", ".join(map(str, finding.prompt_ids[:5]))
        click.echo(f"FINDING  {finding.check}: {finding.count:,} (prompts {examples})")
    if not result.findings:
        click.echo("no findings")


def clock() -> str:
    return time.strftime("%H:%M:%S")


def duration(seconds: float) -> str:
    """`4:05`, or `1:02:03` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
