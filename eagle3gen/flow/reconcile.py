"""Settle what nobody knew: ask the endpoint for its records of lost calls, and compare the books with the key.

An attempt without a whole bill counts with its worst case until one of these says more: the endpoint's own record of
the call, or an operator who writes it off. Each correction is a new row; nothing is rewritten.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from eagle3gen.endpoint.account import read_account
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.generation import Generation, read_generation
from eagle3gen.errors import ServiceUnreachable
from eagle3gen.ledger import unsettled
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import datasets
from eagle3gen.ledger.key_readings import key_readings, read_key
from eagle3gen.ledger.money import ZERO, Amount
from eagle3gen.ledger.states import CorrectionKind
from eagle3gen.ledger.unsettled import Correction, Unsettled
from eagle3gen.records import Usage
from eagle3gen.telemetry import logger

log = logger(__name__)

AT_A_TIME = 16
"""Records asked for at once; the endpoint limits these questions too."""
FIRST_WAIT_SECONDS = 1.0
WAIT_SECONDS_MAX = 15.0


@dataclass(slots=True, kw_only=True)
class KeyCheck:
    """The endpoint's count of what the keys have used beside the ledger's, since the first reading, in USD."""

    endpoint_url: str
    used_usd: Decimal
    booked_usd: Decimal
    left_usd: Decimal | None

    @property
    def unexplained_usd(self) -> Decimal:
        """Used by the keys and on no book: other programs with the same key, and lost calls."""
        return self.used_usd - self.booked_usd


@dataclass(slots=True, kw_only=True)
class Reconciled:
    """What a reconciliation found."""

    settled: int = 0
    settled_amount: Amount = ZERO
    written_off: int = 0
    left: list[Unsettled] = field(default_factory=list)
    """Still without a whole bill; their worst case counts against the caps."""
    keys: list[KeyCheck] = field(default_factory=list)

    @property
    def left_amount(self) -> Amount:
        """The worst case of all that is left."""
        return sum((u.worst for u in self.left), start=ZERO)

    @property
    def clean(self) -> bool:
        return not self.left and not any(k.unexplained_usd for k in self.keys)


async def reconcile(
    ledger: Ledger,
    endpoint: Callable[[str], Endpoint],
    *,
    patience_seconds: float,
    write_off: bool,
    progress: Callable[[int, int], None],
) -> Reconciled:
    """Ask for every missing bill for up to `patience_seconds`, write off the rest if wanted, and check the keys.

    `endpoint` gives the client of a base URL; `progress` is told (settled, still asked for).
    """
    async with ledger.begin() as conn:
        missing = await unsettled.unsettled(conn)
        urls = sorted({d.endpoint_url for d in await datasets(conn)})
    result = Reconciled()
    known = [u for u in missing if u.generation_id]
    result.left = [u for u in missing if not u.generation_id]
    result.left += await _ask(ledger, endpoint, known, result, patience_seconds, progress)
    if write_off:
        result.written_off = await _write_off(ledger, result.left)
        result.left = []
    for url in urls:
        if (check := await _check_key(ledger, endpoint(url), url)) is not None:
            result.keys.append(check)
    return result


async def _ask(
    ledger: Ledger,
    endpoint: Callable[[str], Endpoint],
    asked: Sequence[Unsettled],
    result: Reconciled,
    patience_seconds: float,
    progress: Callable[[int, int], None],
) -> list[Unsettled]:
    """Round after round, since records appear late; what is found is committed after each round."""
    started, wait = time.monotonic(), FIRST_WAIT_SECONDS
    while asked:
        found = await _round(endpoint, asked)
        corrections = [_correction(u, found[u.attempt_id]) for u in asked if u.attempt_id in found]
        async with ledger.begin() as conn:
            result.settled += await unsettled.correct(conn, corrections)
        for correction in corrections:
            usage = correction.usage
            result.settled_amount += Amount(usage.completion_tokens or 0, usage.cost_usd or Decimal(0))
        asked = [u for u in asked if u.attempt_id not in found]
        progress(result.settled, len(asked))
        if not asked or time.monotonic() - started + wait > patience_seconds:
            break
        await asyncio.sleep(wait)
        wait = min(wait * 2, WAIT_SECONDS_MAX)
    return list(asked)


async def _round(endpoint: Callable[[str], Endpoint], asked: Sequence[Unsettled]) -> dict[UUID, Generation]:
    gate = asyncio.Semaphore(AT_A_TIME)
    found: dict[UUID, Generation] = {}
    away: list[ServiceUnreachable] = []

    async def ask(of: Unsettled) -> None:
        async with gate:
            try:
                record = await read_generation(endpoint(of.endpoint_url), of.generation_id or "")
            except ServiceUnreachable as error:
                away.append(error)
                return
        if record is not None:
            found[of.attempt_id] = record

    await asyncio.gather(*map(ask, asked))
    if away:
        log.warning("reconcile.unanswered", questions=len(away), reason=str(away[0]))
    return found


def _correction(of: Unsettled, record: Generation) -> Correction:
    return Correction(
        of=of,
        kind=CorrectionKind.RECONCILED,
        usage=record.usage,
        reason="the endpoint's record of the call",
        model=record.model,
        host=record.host,
        finish_reason=record.finish_reason,
    )


async def _write_off(ledger: Ledger, left: Sequence[Unsettled]) -> int:
    made = [
        Correction(
            of=u,
            kind=CorrectionKind.WRITTEN_OFF,
            # What the answer itself said stays; only the unknown is declared to be nothing.
            usage=Usage(completion_tokens=u.completion_tokens or 0, cost_usd=u.cost_usd or Decimal(0)),
            reason="written off by the operator",
        )
        for u in left
    ]
    async with ledger.begin() as conn:
        return await unsettled.correct(conn, made)


async def _check_key(ledger: Ledger, endpoint: Endpoint, url: str) -> KeyCheck | None:
    """None where the endpoint keeps no account, or no reading was taken before."""
    account = await read_account(endpoint)
    if account is None:
        return None
    async with ledger.begin() as conn:
        before, _ = await key_readings(conn, url)
        now = await read_key(conn, url, endpoint.key_digest, account.usage, account.left)
        first, last = await key_readings(conn, url)
    if not before:
        return None
    usage = {r.key_digest: r.usage_usd for r in first}
    return KeyCheck(
        endpoint_url=url,
        used_usd=sum((r.usage_usd - usage[r.key_digest] for r in last), start=Decimal(0)),
        booked_usd=now.ledger_usd - min(r.ledger_usd for r in first),
        left_usd=account.left,
    )
