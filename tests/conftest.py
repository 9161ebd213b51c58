"""Real Postgres and Valkey for every test that needs them, started once per test process.

They are the product's own one-machine services, so every run of the tests also tests those.
"""

import asyncio
import os
import resource
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from eagle3gen.ledger.migrate import upgrade
from eagle3gen.local.services import Services, start_services

# What a developer has set must not leak into a test.
for name in ("DATABASE_URL", "REDIS_URL", "OPENROUTER_API_KEY", "EAGLE3GEN_API_KEY", "XDG_RUNTIME_DIR"):
    os.environ.pop(name, None)


# The tests with 2,000 open calls need more files than many systems start with.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (_hard if 0 < _hard < 65_536 else max(_soft, 8_192), _hard))


def pytest_report_header() -> str:
    return f"shared data: {shared_folder() or 'absent, its tests are skipped'}"


def shared_folder() -> Path | None:
    """A folder of real prompts and replies beside the checkout, where there is one."""
    folder = Path(os.environ.get("EAGLE3GEN_SHARED", Path(__file__).parents[2] / "shared"))
    return folder if (folder / "data").is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip("the folder of real prompts and replies is not here")
    return folder


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    """Postgres and Valkey of this test process; durability is off for speed."""
    with tempfile.TemporaryDirectory(prefix="e3g-") as folder, asyncio.Runner() as runner:
        running = start_services(Path(folder), durable=False)
        yield runner.run(running.__aenter__())
        runner.run(running.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def template_url(services: Services) -> str:
    """A migrated database to clone; the server's address without a database name."""
    upgrade(services.database_url)
    return services.database_url


@pytest.fixture
def database_url(template_url: str) -> Iterator[str]:
    """A fresh, migrated ledger for one test."""
    import psycopg

    server, template = template_url.rsplit("/", 1)
    name = "t" + uuid.uuid4().hex[:12]
    with psycopg.connect(f"{server}/postgres", autocommit=True) as conn:
        conn.execute(f'create database "{name}" template "{template}"')
        yield f"{server}/{name}"
        conn.execute(f'drop database "{name}" with (force)')


@pytest.fixture
def redis_url(services: Services) -> str:
    """An emptied broker for one test."""
    import redis

    assert services.redis_url is not None
    with redis.Redis.from_url(services.redis_url) as client:
        client.flushall()
    return services.redis_url
