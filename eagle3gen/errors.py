"""Every error a user can meet, in one place.

Eagle3genError
├── InputError            exit 2   a file, a line or an option is not usable
├── ConfigurationError    exit 3   a key, a tokenizer, a folder: nothing can start like this
│   ├── TokenizerRefused           the start-up probe found a wrong id
│   └── StateDirInUse              another run owns the state directory
├── ServiceUnreachable    exit 3   Postgres, the broker or the endpoint does not answer
└── InvariantBroken       exit 1   our own promise failed; never caught to go on

An error's text is one sentence for the user: what happened, where, and what to do.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the command line ends with; printed in `eagle3gen --help`."""

    DONE = 0
    FAILURE = 1
    USAGE = 2
    UNREACHABLE = 3
    CAP_REACHED = 4
    STOPPED = 5
    INTERRUPTED = 130


class Eagle3genError(Exception):
    """Base of all errors whose text is meant for the user."""

    exit_code = ExitCode.FAILURE


class InputError(Eagle3genError):
    """A file, a line or an option cannot be used."""

    exit_code = ExitCode.USAGE


class ConfigurationError(Eagle3genError):
    """Nothing can start with this configuration."""

    exit_code = ExitCode.UNREACHABLE


class TokenizerRefused(ConfigurationError):
    """The start-up probe found an id or an encoding that is not the model's."""


class StateDirInUse(ConfigurationError):
    """Another run owns the state directory."""


class ServiceUnreachable(Eagle3genError):
    """Postgres, the broker or the endpoint does not answer."""

    exit_code = ExitCode.UNREACHABLE


class InvariantBroken(Eagle3genError):
    """A promise of the ledger or the rebuild failed: a bug here, or a damaged database."""
