"""How numbers of a report are written, the same in the terminal and on the page. `?` is unknown, `–` is none."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from eagle3gen.flow.report.numbers import HostReport, Part, usd_per_million
from eagle3gen.flow.report.projection import Fit, Hours, Projection
from eagle3gen.ledger.reporting import Failure, Figures
from eagle3gen.ledger.reporting_series import PACE_MINUTES
from eagle3gen.records import Verdict

UNKNOWN = "?"
NONE = "–"
SMALLEST_USD = Decimal("0.0001")
_SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
FITS = {Fit.YES: "fits", Fit.PERHAPS: "may not fit", Fit.NO: "does not fit"}


def count(value: int | None) -> str:
    """All digits."""
    return UNKNOWN if value is None else f"{value:,}"


def short(value: float) -> str:
    """Three digits and a letter: `1.25M`."""
    rounded = float(f"{value:.3g}")
    for scale, letter in _SCALES:
        if rounded >= scale:
            return f"{rounded / scale:,.10g}{letter}"
    return f"{rounded:g}"


def dollars(amount: float) -> str:
    """A tick of an axis in USD."""
    if amount >= 1000 or amount == round(amount):
        return f"${short(amount)}"
    return f"${amount:.2f}" if amount >= 0.1 or amount == round(amount, 2) else f"${amount:.3g}"


def money(amount: Decimal | None, *, more: bool = False) -> str:
    """USD to a hundredth of a cent below 100, else to a cent; a plus sign says that some calls have no price yet."""
    if amount is None:
        return UNKNOWN
    if not amount:
        return "$0" + ("+" if more else "")
    if 0 < amount < SMALLEST_USD:
        return f"<${SMALLEST_USD}" + ("+" if more else "")
    return (f"${amount:,.4f}" if amount < 100 else f"${amount:,.2f}") + ("+" if more else "")


def cost(figures: Figures) -> str:
    return money(figures.cost_usd, more=figures.unpriced_attempts > 0)


def tokens(figures: Figures) -> str:
    """Completion tokens; a plus sign says that some calls have not told theirs."""
    return count(figures.completion_tokens) + ("+" if figures.uncounted_attempts and figures.completion_tokens else "")


def price(figures: Figures) -> str:
    """USD per million completion tokens."""
    amount = usd_per_million(figures)
    return NONE if amount is None else f"${amount:,.2f}"


def length(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def share(part: float, whole: float) -> str:
    """Percent; what is not nothing is never shown as 0, nor what is not all as 100."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1%"
    if 99.9 < percent < 100:
        return ">99.9%"
    return f"{percent:.1f}%"


def usable(verdicts: Mapping[str, int]) -> int:
    """Answers that an export takes."""
    return sum(number for verdict, number in verdicts.items() if Verdict(verdict).trainable)


def duration(hours: float) -> str:
    """In the unit that people would use."""
    if hours * 3600 < 90:
        return f"{hours * 3600:.0f} s"
    if hours < 1.5:
        return f"{hours * 60:.0f} min"
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def host_name(host: HostReport) -> str:
    return host.figures.host or "host not told"


def model_name(host: HostReport) -> str:
    return host.figures.model or "model not told"


def one_model(hosts: Sequence[HostReport]) -> bool:
    """Whether the model's name tells the rows of these hosts apart in nothing."""
    return len({h.figures.model for h in hosts if h.figures.model is not None}) <= 1


def label(host: HostReport, hosts: Sequence[HostReport]) -> str:
    """The host, and its model where there are several."""
    return host_name(host) if one_model(hosts) else f"{host_name(host)} · {model_name(host)}"


def between(low: str, high: str) -> str:
    return low if low == high else f"{low}–{high}"


def tokens_to_go(p: Projection) -> str:
    return UNKNOWN if p.tokens is None else between(short(p.tokens.mean), short(p.tokens.pessimistic))


def usd_to_go(p: Projection) -> str:
    return UNKNOWN if p.usd is None else between(f"${p.usd.mean:,.2f}", f"${p.usd.pessimistic:,.2f}")


def time_to_go(p: Projection) -> str:
    return UNKNOWN if p.hours is None else _hours(p.hours)


def _hours(hours: Hours) -> str:
    return between(duration(hours.mean), duration(hours.pessimistic))


def left(part: Part) -> str:
    """What may still be spent: tokens, else USD."""
    if (tokens_left := part.tokens_left) is not None:
        return count(tokens_left)
    return NONE if part.usd_left is None else money(part.usd_left)


def left_words(part: Part) -> str:
    """The cap itself, with the holds that take of it."""
    if part.cap.tokens is None:
        return "no cap" if part.cap.usd is None else f"of {money(part.cap.usd)}"
    f = part.figures
    reserved = f", {short(f.held_tokens + f.open_tokens)} held or open" if f.held_tokens + f.open_tokens else ""
    second = "" if part.usd_left is None else f"; {money(part.usd_left)} of {money(part.cap.usd)}"
    return f"of {short(part.cap.tokens)} tokens{reserved}{second}"


def unpriced(figures: Figures) -> str:
    return count(figures.unpriced_attempts) if figures.unpriced_attempts else NONE


def failed(figures: Figures) -> str:
    """Billed attempts that brought no answer, and what they cost."""
    if not figures.failed_attempts:
        return NONE
    return f"{figures.failed_attempts:,} · {money(figures.failed_usd)}"


def held(figures: Figures) -> str:
    """Attempts without a word on their bill, and the most that they may have cost."""
    if not figures.held_attempts:
        return NONE
    return f"{figures.held_attempts:,} · ≤ {short(figures.held_tokens)}"


def endings(finish_reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {reason or 'not told'}" for reason, number in finish_reasons.items())


def mix(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {verdict}" for verdict, number in verdicts.items())


def billed(failure: Failure) -> str:
    return {"settled": "yes", "released": "no"}.get(failure.outcome, "perhaps")


def status(failure: Failure) -> str:
    return NONE if failure.status is None else str(failure.status)


def projection_notes(part: Part) -> list[str]:
    """What a projection rests on, why a part of it is unknown, and whether a cap will end it first."""
    p, sentences = part.projection, list(part.projection.unknown)
    limit = "the cap" if part.dataset else "the cap of at least one dataset"
    if p.fits_cap is Fit.NO:
        sentences.append(f"This does not fit under {limit}: the run will stop there")
    elif p.fits_cap is Fit.PERHAPS:
        sentences.append(f"This may not fit under {limit}: the run would stop there")
    if p.hours is not None and part.pace is not None:
        sentences.append(f"The time is at the pace of the {PACE_MINUTES} minutes before {moment(part.pace.until)}")
    if p.borrowed:
        sentences.append("A queue without answers is expected to be like other datasets with its model")
    return sentences


def notes(part: Part) -> list[str]:
    """What must be known to read the sums of a part right, as sentences."""
    f, sentences = part.figures, []
    if f.failed_attempts:
        tokens_told = "an unknown number of" if f.failed_tokens is None else f"{f.failed_tokens:,}"
        usd_told = "an unknown cost" if f.failed_usd is None else money(f.failed_usd)
        spent = f"{tokens_told} tokens and {usd_told}"
        sentences.append(f"{f.failed_attempts:,} billed attempts brought no answer: {spent}, in the sums above")
    if f.held_attempts:
        sentences.append(
            f"{f.held_attempts:,} attempts are held, without a word on their bill: up to {f.held_tokens:,} tokens,"
            " not in the sums above"
        )
    if f.open_attempts:
        sentences.append(f"{f.open_attempts:,} calls are open: up to {f.open_tokens:,} tokens, not in the sums above")
    if f.uncounted_attempts:
        sentences.append(f"{f.uncounted_attempts:,} settled attempts told no tokens; they are among the held")
    if f.unpriced_attempts:
        sentences.append(f"{f.unpriced_attempts:,} settled attempts told no cost, which is unknown, not 0")
    return sentences
