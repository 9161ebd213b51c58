"""Prompts into the ledger, thousands per second, each exactly once."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import AsyncConnection
from sqlalchemy import text

from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.texts import storable
from eagle3gen.records import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow:
    """One prompt as it is stored. `key` identifies its content within the dataset."""

    key: bytes
    source: str
    payload: bytes
    """JSON with `messages` and `tools`, kept as the very bytes that were made of the file."""
    queue: Queue
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """How many rows were new, and how many the dataset held already."""

    added: int
    duplicates: int


_STAGE = text(
    "CREATE TEMP TABLE IF NOT EXISTS incoming (n integer, key bytea, source text, payload bytea, queue text,"
    " max_tokens integer) ON COMMIT DELETE ROWS"
)
_COPY = "COPY incoming (n, key, source, payload, queue, max_tokens) FROM STDIN (FORMAT BINARY)"
_TYPES = ["int4", "bytea", "text", "bytea", "text", "int4"]
_MOVE = text(
    "INSERT INTO prompts (dataset_id, key, source, payload, queue, max_tokens)"
    " SELECT :dataset_id, key, source, payload, queue, max_tokens FROM incoming ORDER BY n"
    " ON CONFLICT (dataset_id, key) DO NOTHING"
)


async def load_prompts(conn: Connection, dataset_id: int, rows: Sequence[PromptRow]) -> Loaded:
    """COPY the rows in their order; those whose key the dataset holds are left as they are."""
    await conn.execute(_STAGE)
    raw = (await conn.get_raw_connection()).driver_connection
    if not isinstance(raw, AsyncConnection):
        raise TypeError("the ledger runs on psycopg 3")
    async with raw.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(_TYPES)
        for n, row in enumerate(rows):
            await copy.write_row((n, row.key, storable(row.source), row.payload, row.queue.value, row.max_tokens))
    added = (await conn.execute(_MOVE, {"dataset_id": dataset_id})).rowcount
    return Loaded(added=added, duplicates=len(rows) - added)
