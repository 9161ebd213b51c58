"""`eagle3gen flower`."""

import os
from pathlib import Path

import click

from eagle3gen.cli import options, rendering
from eagle3gen.config import Settings
from eagle3gen.errors import ConfigurationError

TASKS_MAX = 10_000
"""Tasks that Flower remembers; its own default of 100,000 costs hundreds of megabytes."""


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=5555, show_default=True)
@click.option("--address", default="127.0.0.1", show_default=True)
@click.option(
    "--basic-auth",
    metavar="USER:PASSWORD",
    envvar="EAGLE3GEN_FLOWER_AUTH",
    help="Needed beyond loopback; better set as EAGLE3GEN_FLOWER_AUTH.",
)
@options.state_dir
def flower(port: int, address: str, basic_auth: str | None, state_dir: Path | None) -> None:
    """Watch workers and tasks in the browser: of a running `eagle3gen run`, or of a fleet (REDIS_URL)."""
    redis_url = _broker(state_dir)
    loopback = address in {"127.0.0.1", "::1", "localhost"}
    if not loopback and basic_auth is None:
        raise ConfigurationError(
            f"Flower on {address} would be open to everybody: set EAGLE3GEN_FLOWER_AUTH=USER:PASSWORD"
        )
    from workers.app import app

    # Celery's application reads its broker from here, so that no password stands on a command line.
    os.environ["REDIS_URL"] = redis_url
    if basic_auth is not None:
        os.environ["FLOWER_BASIC_AUTH"] = basic_auth
    rendering.say(f"Flower on http://{address}:{port}")
    argv = ["flower", f"--port={port}", f"--address={address}", f"--max-tasks={TASKS_MAX}", "--logging=warning"]
    app.start(argv=argv)


def _broker(state_dir: Path | None) -> str:
    redis_url = Settings().redis_url
    if state_dir is None and redis_url is not None:
        return redis_url
    from eagle3gen.local.state_dir import running

    addresses = running(state_dir or Path(options.DEFAULT_STATE_DIR))
    if addresses is None or addresses.redis_url is None:
        raise ConfigurationError("no run is going on here; start one, or set REDIS_URL to a fleet's Redis or Valkey")
    return addresses.redis_url
