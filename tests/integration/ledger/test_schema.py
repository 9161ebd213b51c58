"""The migrations make the schema that the code believes in, on any Postgres that may be changed."""

import asyncio
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.ledger.connect import driver_url, open_ledger
from eagle3gen.ledger.migrate import current, ensure_database, upgrade
from eagle3gen.ledger.states import DatasetState, Outcome, PromptState
from eagle3gen.ledger.tables import metadata
from eagle3gen.records import Queue, Verdict


@pytest.fixture
def engine(database_url):
    made = create_engine(driver_url(database_url))
    yield made
    made.dispose()


@pytest.fixture
def empty_url(database_url):
    """A database without a ledger, on the same server."""
    engine = create_engine(driver_url(database_url))
    with engine.begin() as conn:
        conn.execute(text("DROP SCHEMA public CASCADE"))
        conn.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return database_url


def test_the_migrations_and_the_tables_say_the_same(engine) -> None:
    with engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_every_state_of_the_code_is_a_state_of_the_schema(engine) -> None:
    """Alembic does not compare CHECK constraints, so they are compared here."""
    query = text("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'")
    with engine.connect() as conn:
        checks = dict(tuple(row) for row in conn.execute(query))
    lists = {
        "ck_datasets_state": DatasetState,
        "ck_prompts_state": PromptState,
        "ck_prompts_queue": Queue,
        "ck_workers_queue": Queue,
        "ck_resolutions_outcome": Outcome,
        "ck_samples_verdict": Verdict,
    }
    for name, values in lists.items():
        words = {word for word in checks[name].split("'")[1::2] if "::" not in word}
        assert words == {value.value for value in values}, name


@pytest.mark.parametrize("table", ["resolutions", "corrections"])
@pytest.mark.parametrize(("tokens", "usd"), [("-1", "0"), ("1", "-0.1"), ("1", "'NaN'"), ("1", "'Infinity'")])
def test_a_bill_that_would_make_room_or_swallow_the_sum_is_refused(engine, table, tokens, usd) -> None:
    word = {"resolutions": "outcome", "corrections": "reason"}[table]
    insert = text(
        f"INSERT INTO {table} (attempt_id, {word}, completion_tokens, cost_usd)"
        f" VALUES (gen_random_uuid(), 'settled', {tokens}, {usd})"
    )
    with engine.connect() as conn, pytest.raises(IntegrityError, match=rf"ck_{table}_(completion_tokens|cost_usd)"):
        conn.execute(insert)


def test_compressed_bytes_are_not_compressed_again(engine) -> None:
    query = text(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'samples'::regclass AND attstorage = 'e' ORDER BY attname"
    )
    with engine.connect() as conn:
        assert list(conn.execute(query).scalars()) == ["body", "output_ids", "prompt_ids"]


def test_an_empty_database_is_upgraded_and_a_second_upgrade_changes_nothing(empty_url) -> None:
    assert current(empty_url) is None
    upgrade(empty_url)
    revision = current(empty_url)
    upgrade(empty_url)
    assert current(empty_url) == revision is not None


async def test_upgrades_that_start_together_do_not_meet(empty_url) -> None:
    """Alembic keeps its state in globals, so these are processes, as in a fleet."""
    program = "import sys; from eagle3gen.ledger.migrate import upgrade; upgrade(sys.argv[1])"
    made = [await asyncio.create_subprocess_exec(sys.executable, "-c", program, empty_url) for _ in range(3)]
    assert [await process.wait() for process in made] == [0, 0, 0]
    ledger = open_ledger(empty_url)
    await ledger.ping()
    await ledger.close()


async def test_a_database_without_a_ledger_is_told_by_what_makes_one(empty_url) -> None:
    ledger = open_ledger(empty_url)
    with pytest.raises(ConfigurationError, match="eagle3gen db upgrade"):
        await ledger.ping()
    await ledger.close()


def test_a_ledger_of_a_newer_version_is_left_alone(database_url, engine) -> None:
    with engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="another version"):
        upgrade(database_url)


def test_a_database_with_other_tables_of_these_names_is_left_alone(empty_url) -> None:
    engine = create_engine(driver_url(empty_url))
    with engine.begin() as conn:
        conn.execute(text("CREATE TABLE prompts (id integer)"))
    with pytest.raises(ConfigurationError, match="takes no ledger"):
        upgrade(empty_url)
    with engine.connect() as conn:
        assert conn.execute(text("SELECT to_regclass('datasets')")).scalar() is None
    engine.dispose()


@pytest.mark.parametrize("ask", [upgrade, current])
def test_a_server_that_is_not_there_is_told_in_one_sentence(ask) -> None:
    with pytest.raises(ServiceUnreachable, match=r"Postgres at 127\.0\.0\.1:1 failed"):
        ask("postgresql://user:secret@127.0.0.1:1/name")


def test_a_database_is_made_once(database_url, engine) -> None:
    server = database_url.rsplit("/", 1)[0] + "/"
    name = database_url.rsplit("/", 1)[1] + "_made"
    ensure_database(server, name)
    ensure_database(server, name)
    upgrade(server + name)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text(f'DROP DATABASE "{name}" WITH (FORCE)'))
