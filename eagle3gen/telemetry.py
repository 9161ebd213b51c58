"""Logging: one stream on stderr, structured, the same for our code and the libraries."""

import logging
import sys
from typing import Any

import structlog

_QUIET = {
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "asyncio": logging.WARNING,
    "kombu": logging.WARNING,
    "celery.bootsteps": logging.WARNING,
    "alembic": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,  # a line per message
    "celery.app.trace": logging.WARNING,
}


def configure(*, level: str = "INFO", as_json: bool | None = None) -> None:
    """Send every log line to stderr: JSON when not on a terminal, coloured text when on one.

    Prompt text and keys are never passed to a logger (CONTRIBUTING.md); there is nothing to filter here.
    """
    as_json = not sys.stderr.isatty() if as_json is None else as_json
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name, quiet in _QUIET.items():
        logging.getLogger(name).setLevel(quiet)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger whose first argument is a dotted event name, the rest keys: `log.info("claim.refused", …)`."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound
