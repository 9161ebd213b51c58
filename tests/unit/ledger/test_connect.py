"""Addresses of a ledger: every usual spelling, no password in any message."""

import pytest

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.ledger.connect import driver_url, open_ledger, place


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"])
def test_every_usual_spelling_becomes_psycopg(scheme) -> None:
    assert driver_url(f"{scheme}://u:p@h:1/d?sslmode=require") == "postgresql+psycopg://u:p@h:1/d?sslmode=require"


@pytest.mark.parametrize("url", ["", "host", "mysql://h/d", "postgres://u:secret@h:port/d", "postgresql://[::1/d"])
def test_what_is_no_address_is_refused_without_repeating_it(url) -> None:
    with pytest.raises(ConfigurationError) as refused:
        driver_url(url)
    assert "secret" not in str(refused.value)


def test_a_place_is_a_host_and_a_port() -> None:
    assert place("postgresql://user:secret@db.example:6543/name") == "db.example:6543"
    assert place("postgresql:///name") == "localhost:5432"


async def test_a_database_that_is_not_there_is_told_in_one_sentence() -> None:
    ledger = open_ledger("postgresql://user:secret@127.0.0.1:1/name")
    with pytest.raises(ServiceUnreachable, match=r"Postgres at 127\.0\.0\.1:1 failed") as away:
        await ledger.ping()
    assert "secret" not in str(away.value)
    assert "\n" not in str(away.value)
    await ledger.close()
