"""Watch the purse while a run goes on: what the key has left against what is open, and whether prices moved."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from eagle3gen.endpoint.account import Account, read_account
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.prices import read_prices
from eagle3gen.endpoint.routing import Routing
from eagle3gen.errors import ServiceUnreachable
from eagle3gen.flow import halt
from eagle3gen.ledger import reading
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import Dataset, datasets, set_prices
from eagle3gen.ledger.key_readings import read_key
from eagle3gen.ledger.reading import Load
from eagle3gen.ledger.states import DatasetState
from eagle3gen.telemetry import logger

log = logger(__name__)

PRICES_SECONDS = 600.0
ANSWERS_MIN = 20
"""With fewer answers than this, an open call counts with its worst case."""
MARGIN = 2
"""An open call counts as this many mean answers: long answers are still open when short ones have ended."""


@dataclass(slots=True)
class Purse:
    """Looks at every endpoint that has open datasets. One worker of a fleet does so at a time."""

    ledger: Ledger
    endpoint: Callable[[Dataset], Endpoint]
    _read: set[str] = field(default_factory=set)
    _priced: dict[str, float] = field(default_factory=dict)

    async def look(self) -> None:
        """Pause what the key cannot pay for any more, and take over new prices. Raises ServiceUnreachable."""
        async with self.ledger.begin() as conn:
            opened = [d for d in await datasets(conn) if d.state is DatasetState.OPEN]
        for url in sorted({d.endpoint_url for d in opened}):
            own = [d for d in opened if d.endpoint_url == url]
            await self._look_at_key(url, own)
            if time.monotonic() - self._priced.get(url, -PRICES_SECONDS) >= PRICES_SECONDS:
                self._priced[url] = time.monotonic()
                await self._look_at_prices(own)

    async def _look_at_key(self, url: str, own: Sequence[Dataset]) -> None:
        endpoint = self.endpoint(own[0])
        account = await read_account(endpoint)
        if account is None:
            return
        async with self.ledger.begin() as conn:
            if url not in self._read:
                await read_key(conn, url, endpoint.key_digest, account.usage, account.left)
            loads = await reading.loads(conn)
        self._read.add(url)
        if reason := short_of_money(account, own, loads):
            log.warning("key.short_of_money", endpoint_url=url, reason=reason)
            await halt.pause_key(self.ledger, url, reason)

    async def _look_at_prices(self, own: Sequence[Dataset]) -> None:
        for dataset in own:
            prices = await read_prices(self.endpoint(dataset), dataset.model, Routing.read(dataset.routing))
            if prices is not None and prices != dataset.prices:
                async with self.ledger.begin() as conn:
                    await set_prices(conn, dataset.id, prices)
                log.info("prices.changed", dataset=dataset.name, completion_usd=str(prices.completion_usd))


def short_of_money(account: Account, own: Sequence[Dataset], loads: dict[int, Load]) -> str:
    """Why the key can not carry what is open; empty while it can, or nobody knows its limit."""
    if account.left is None:
        return ""
    needed = sum((open_cost(d, loads.get(d.id, Load())) for d in own), start=Decimal(0))
    if account.left > 0 and account.left >= needed:
        return ""
    left = f"${account.left:,.2f} is left" if account.left > 0 else f"no money is left ({account.left:,.2f} USD)"
    return (
        f"key: {left}, and what is open may cost ${needed:,.2f}; top up, or set --usd-cap or fewer calls at a time,"
        " then resume"
    )


def open_cost(dataset: Dataset, load: Load) -> Decimal:
    """What the open calls of a dataset are likely to cost at most: by its mean answer, else by their holds."""
    if load.answers < ANSWERS_MIN:
        return dataset.open_usd
    return min(dataset.open_usd, dataset.cost_usd / load.answers * load.in_flight * MARGIN)


async def first_reading(ledger: Ledger, endpoint: Endpoint) -> Account | None:
    """Read the key before anything is spent with it, so that `reconcile` has something to compare with.

    An endpoint that cannot be asked is no fault here: the workers will ask again.
    """
    try:
        account = await read_account(endpoint)
    except ServiceUnreachable as error:
        log.warning("key.unread", reason=str(error))
        return None
    if account is not None:
        async with ledger.begin() as conn:
            await read_key(conn, endpoint.base_url, endpoint.key_digest, account.usage, account.left)
    return account
