"""Each hot query uses the index that was made for it, on a ledger of a size where it matters."""

import re
import uuid

import pytest
from sqlalchemy import text
from sqlalchemy.sql.elements import TextClause

from eagle3gen.ledger import batch, claims, counters, datasets, demand, settlements, sweeping
from eagle3gen.ledger.connect import open_ledger
from eagle3gen.ledger.migrate import ensure_database, upgrade

PROMPTS = 20_000


@pytest.fixture(scope="module")
def large_url(template_url):
    """One dataset, mostly done, with a few hundred prompts in each other state."""
    import psycopg

    server = template_url.rsplit("/", 1)[0] + "/"
    name = "t" + uuid.uuid4().hex[:12]
    ensure_database(server, name)
    upgrade(server + name)
    with psycopg.connect(server + name, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO datasets (name, model, endpoint_url, tokenizer, tokenizer_sha256, sampling)"
            " VALUES ('set', 'm', 'u', 't', 'x', '{}')"
        )
        conn.execute(
            "INSERT INTO prompts (dataset_id, key, source, payload, queue, max_tokens, state, queued_at, attempt_id)"
            " SELECT 1, int4send(n), 'f', repeat('x', 800)::bytea, 'short', 100,"
            " (array['pending', 'queued', 'in_flight'])[n %% 50 + 1], now(), gen_random_uuid()"
            " FROM generate_series(1, %s) n WHERE n %% 50 < 3",
            [PROMPTS],
        )
        conn.execute(
            "INSERT INTO prompts (dataset_id, key, source, payload, queue, max_tokens, state, attempt_id)"
            " SELECT 1, int4send(n), 'f', repeat('x', 800)::bytea, 'short', 100, 'done', gen_random_uuid()"
            " FROM generate_series(1, %s) n WHERE n %% 50 >= 3",
            [PROMPTS],
        )
        conn.execute(
            "INSERT INTO attempts (id, prompt_id, dataset_id, worker_id, hold_tokens, worst_tokens, opened_at)"
            " SELECT attempt_id, id, 1, gen_random_uuid(), 100, 100, now() - random() * interval '1 hour'"
            " FROM prompts WHERE attempt_id IS NOT NULL"
        )
        conn.execute("INSERT INTO resolutions (attempt_id, outcome) SELECT id, 'settled' FROM attempts")
        conn.execute("ANALYZE")
        yield server + name
    with psycopg.connect(server + "postgres", autocommit=True) as conn:
        conn.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


IDS = list(range(1, 200))
UUIDS = [uuid.uuid4() for _ in IDS]
QUEUE = {
    "dataset_id": 1, "queue": "short", "count": 100, "seconds": 0.0, "left_tokens": None, "left_usd": None
}  # fmt: skip
LEFT = {"ids": [1], "left_tokens": [None], "left_usd": [None]}
CLOSED = {"ids": IDS, "attempts": UUIDS, "states": ["done"] * 199, "errors": [""] * 199}
HOT = {
    "lock prompts to be settled": (batch._LOCK, {"ids": IDS}, "pk_prompts"),
    "note generation ids": (batch._NOTE, {"attempts": UUIDS, "ids": ["g"] * 199}, "Insert on generations"),
    "find claimable prompts": (claims._CANDIDATES, {"ids": IDS}, "pk_prompts"),
    "take prompts": (claims._TAKE, {"ids": IDS, "attempts": UUIDS}, "pk_prompts|ix_prompts_queued"),
    "refuse prompts": (claims._REFUSE, {"ids": IDS}, "pk_prompts"),
    "find attempts made before": (claims._MADE_BEFORE, {"attempts": UUIDS}, "pk_attempts"),
    "close prompts": (
        settlements._CLOSE,
        {**CLOSED, "tries": [1] * 199, "waits": [0.0] * 199},
        "pk_prompts|ix_prompts_in_flight",
    ),
    "close late prompts": (settlements._CLOSE_LATE, CLOSED, "pk_prompts"),
    "find held attempts": (settlements._HELD, {"attempts": UUIDS}, "pk_resolutions|ix_resolutions_held"),
    "count demand": (demand._DEMAND, {"queues": ["short"], **LEFT}, "ix_prompts_pending"),
    "queue prompts": (demand._QUEUE, QUEUE, "ix_prompts_pending"),
    "ring again": (sweeping._STALE, QUEUE, "ix_prompts_queued"),
    "find examples of a fault": (
        counters._EXAMPLES,
        {"dataset": 1, "fault": "verdict"},
        "ix_resolutions_fault",
    ),
    "find abandoned attempts": (sweeping._ABANDONED, {"lost": UUIDS[:1], "seconds": 15.0}, "ix_prompts_in_flight"),
}


async def plan(url: str, statement: TextClause, parameters: dict) -> str:
    ledger = open_ledger(url)
    wanted = {name: parameters[name] for name in re.findall(r"(?<!:):([a-z_]+)", statement.text)}
    async with ledger.begin() as conn:
        rows = list((await conn.execute(text(f"EXPLAIN {statement.text}"), wanted)).scalars())
    await ledger.close()
    return "\n".join(rows)


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_query_reads_by_its_index_and_never_the_whole_table(large_url, name) -> None:
    statement, parameters, index = HOT[name]
    found = await plan(large_url, statement, parameters)
    assert re.search(index, found), found
    assert not re.search(r"Seq Scan on (prompts|attempts|resolutions|samples)", found), found


def test_every_statement_of_the_hot_path_is_looked_at() -> None:
    known = {id(statement) for statement, _, _ in HOT.values()}
    # Few rows, or asked only by who looks at the whole ledger.
    few_rows = {id(s) for s in (datasets._LOCK, datasets._LOCK_ALL, sweeping._HOLD, counters._PAUSE, demand._FITTING)}
    for module in (batch, claims, counters, datasets, demand, settlements, sweeping):
        for name, value in vars(module).items():
            if isinstance(value, TextClause):
                assert id(value) in known | few_rows, f"{module.__name__}.{name}"
