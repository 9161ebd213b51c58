"""`eagle3gen flower`."""

import os

import click

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
def flower(port: int, address: str, basic_auth: str | None) -> None:
    """Watch workers and tasks of the fleet (REDIS_URL) in the browser."""
    if Settings().redis_url is None:
        raise ConfigurationError("no broker: set REDIS_URL to the fleet's Redis or Valkey")
    loopback = address in {"127.0.0.1", "::1", "localhost"}
    if not loopback and basic_auth is None:
        raise ConfigurationError(
            f"Flower on {address} would be open to everybody: set EAGLE3GEN_FLOWER_AUTH=USER:PASSWORD"
        )
    from workers.app import app

    if basic_auth is not None:
        os.environ["FLOWER_BASIC_AUTH"] = basic_auth
    argv = [
        "flower",
        f"--port={port}",
        f"--address={address}",
        f"--max-tasks={TASKS_MAX}",
        "--logging=warning",
    ]
    app.start(argv=argv)
