"""What the endpoints say that a key has used, beside what the ledger knew at that moment."""

from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import func, insert, select, text

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReading:
    """What an endpoint said that a key had used, and what the ledger knew at that moment, in USD."""

    endpoint_url: str
    key_digest: str
    usage_usd: Decimal
    left_usd: Decimal | None
    ledger_usd: Decimal


async def read_key(
    conn: Connection, endpoint_url: str, key_digest: str, usage_usd: Decimal, left_usd: Decimal | None
) -> KeyReading:
    """Store what the endpoint says of a key now, beside what the ledger knows."""
    t, d = tables.key_readings, tables.datasets
    known = select(func.coalesce(func.sum(d.c.cost_usd), 0)).where(d.c.endpoint_url == endpoint_url)
    reading = KeyReading(
        endpoint_url=endpoint_url,
        key_digest=key_digest,
        usage_usd=usage_usd,
        left_usd=left_usd,
        ledger_usd=(await conn.execute(known)).scalar_one(),
    )
    values = {name: getattr(reading, name) for name in KeyReading.__dataclass_fields__}
    await conn.execute(insert(t).values(values))
    return reading


_FIRST = text(
    "SELECT DISTINCT ON (key_digest) endpoint_url, key_digest, usage_usd, left_usd, ledger_usd FROM key_readings"
    " WHERE endpoint_url = :url ORDER BY key_digest, read_at, id"
)
_LAST = text(
    "SELECT DISTINCT ON (key_digest) endpoint_url, key_digest, usage_usd, left_usd, ledger_usd FROM key_readings"
    " WHERE endpoint_url = :url ORDER BY key_digest, read_at DESC, id DESC"
)


async def key_readings(conn: Connection, endpoint_url: str) -> tuple[list[KeyReading], list[KeyReading]]:
    """The first and the last reading of each key that was used at an endpoint."""
    first = (await conn.execute(_FIRST, {"url": endpoint_url})).mappings()
    last = (await conn.execute(_LAST, {"url": endpoint_url})).mappings()
    return [KeyReading(**row) for row in first], [KeyReading(**row) for row in last]
