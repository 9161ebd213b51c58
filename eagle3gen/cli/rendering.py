"""How things look: tables and sentences for people on stderr or stdout, JSON for programs. Nothing is done here."""

import time
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
import orjson

if TYPE_CHECKING:
    from eagle3gen.flow.audit import Audit
    from eagle3gen.flow.export import Exported
    from eagle3gen.ledger.health import Breaker
    from eagle3gen.ledger.reading import DatasetTotals, PlanTotals


def say(sentence: str) -> None:
    """One sentence for the user, on stderr: stdout is for data."""
    click.echo(sentence, err=True)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line of stdout."""
    click.echo(orjson.dumps(value).decode())


def run_object(datasets: Sequence["DatasetTotals"], plan: "PlanTotals", seconds: float, **more: Any) -> dict[str, Any]:
    """The object that `run --json` and `status --json` end with."""
    from eagle3gen.flow.status import as_json, plan_json

    return {"datasets": as_json(datasets), "plan": plan_json(plan), "seconds": round(seconds, 3), **more}


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


def print_datasets(datasets: Sequence["DatasetTotals"], plan: "PlanTotals | None" = None) -> None:
    """The status screen on stdout: a few short lines per dataset, the same on a terminal and in a pipe."""
    width = max((len(d.name) for d in datasets), default=0) + 2
    for d in datasets:
        counts = {
            "done": d.done,
            "in flight": d.in_flight,
            "pending": d.waiting,
            "rejected": d.rejected,
            "failed": d.failed,
        }
        states = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "none"
        click.echo(f"{d.name:{width}}{d.state.value}{': ' + d.state_reason if d.state_reason else ''}")
        click.echo(f"{'':{width}}{d.prompts:,} prompts: {states}")
        _print_money(width, d, unpriced=bool(d.unpriced_attempts))
        if d.verdicts:
            click.echo(f"{'':{width}}verdicts: {verdict_mix(d.verdicts)}")
        if d.canary_slots is not None and d.canary_judged < d.canary:
            click.echo(f"{'':{width}}canary: {d.canary_judged} of {d.canary} judged")
        click.echo(f"{'':{width}}breaker: {breaker_words(d.breaker, d.recent)}")
        for sentence, count in d.errors.items():
            click.echo(f"{'':{width}}{count:,} not usable: {sentence}")
    if plan is not None and (plan.cap.exists or len(datasets) > 1):
        width = max(width, 6)
        click.echo(f"{'plan':{width}}{len(datasets)} datasets")
        _print_money(width, plan, unpriced=any(d.unpriced_attempts for d in datasets))


def _print_money(width: int, of: "DatasetTotals | PlanTotals", *, unpriced: bool) -> None:
    """Spent, held and open against the cap, in tokens and in USD."""
    left, cap = of.left, of.cap
    parts = [f"{of.spent.tokens:,} spent"]
    parts += [f"{a.tokens:,} {n}" for n, a in (("held", of.held), ("open", of.open)) if a.tokens]
    of_cap = "no cap" if cap.tokens is None else f"cap {cap.tokens:,}, {left.tokens:,} left"
    click.echo(f"{'':{width}}tokens: {', '.join(parts)}; {of_cap}")
    parts = [f"{dollars(of.spent.usd)}{'+' if unpriced else ''} spent"]
    parts += [f"{dollars(a.usd)} {n}" for n, a in (("held", of.held), ("open", of.open)) if a.usd]
    of_cap = "no cap" if cap.usd is None or left.usd is None else f"cap {dollars(cap.usd)}, {dollars(left.usd)} left"
    click.echo(f"{'':{width}}USD: {', '.join(parts)}; {of_cap}")


def breaker_words(breaker: "Breaker", recent: str) -> str:
    """What the breaker sees, and what it bears."""
    from eagle3gen.ledger.health import GOOD, Fault

    faulty = len(recent) - recent.count(GOOD)
    shares = ", ".join(f"{fault.value} {breaker.share(fault):.0%}" for fault in Fault)
    return f"{faulty} of the last {len(recent)} answers faulty; pauses above {shares} of {breaker.window}"


def say_ending(datasets: Sequence["DatasetTotals"], seconds: float, plan: "PlanTotals | None" = None) -> None:
    """How the run went, and for each dataset with work left, why."""
    from eagle3gen.flow.status import at_cap

    done, prompts = sum(d.done for d in datasets), sum(d.prompts for d in datasets)
    say(f"{done:,} of {prompts:,} prompts done in {duration(seconds)}.")
    for d in datasets:
        if d.waiting and at_cap(d):
            say(f"{d.name}: {full_cap(d, plan)}; {d.waiting:,} prompts are left.")
            say("Raise the cap and run the same command again to go on.")
        elif d.waiting:
            why = f" ({d.state_reason})" if d.state_reason else ""
            say(f"{d.name} is {d.state.value}{why}; {d.waiting:,} prompts are left.")


def full_cap(d: "DatasetTotals", plan: "PlanTotals | None" = None) -> str:
    """Which cap admits no further call."""
    if d.pending is None:
        raise AssertionError("only a dataset with pending prompts can be at its cap")
    least = d.pending.least
    for whose, left, cap in (("the cap", d.left, d.cap), *((("the plan's cap", plan.left, plan.cap),) if plan else ())):
        if cap.tokens is not None and left.tokens is not None and left.tokens < least.tokens:
            return f"{whose} of {cap.tokens:,} tokens admits no further call, which reserves {least.tokens:,}"
        if cap.usd is not None and left.usd is not None and left.usd < least.usd:
            return f"{whose} of {dollars(cap.usd)} admits no further call, which reserves {dollars(least.usd)}"
    return "the caps together admit no further call"


def dollars(amount: Decimal) -> str:
    """USD to a hundredth of a cent, for people."""
    return f"-${-amount:,.4f}" if amount < 0 else f"${amount:,.4f}"


def money(d: "DatasetTotals") -> str:
    """Cost in USD to a hundredth of a cent; a plus sign says that some calls have no price yet."""
    return f"${d.cost_usd:.4f}" + ("+" if d.unpriced_attempts else "")


def verdict_mix(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(verdicts.items()))


def print_audit(result: "Audit") -> None:
    """What the audit saw, one finding a line, on stdout."""
    click.echo(f"{result.samples:,} samples: {verdict_mix(result.verdicts)}")
    click.echo(f"billed {result.billed_tokens:,} tokens, rebuilt {result.rebuilt_tokens:,}")
    if result.held.tokens or result.held.usd:
        click.echo(
            f"held: calls without a bill may have cost up to {result.held.tokens:,} tokens and"
            f" {dollars(result.held.usd)}; `eagle3gen reconcile` settles them"
        )
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
