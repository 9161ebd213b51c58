"""The command line. Each command lives in its own module and is imported when it is called."""

import importlib
import sys

import click

from eagle3gen import __version__
from eagle3gen.errors import Eagle3genError, ExitCode

COMMANDS = {
    "demo": "demo",
    "run": "run",
    "doctor": "doctor",
    "enqueue": "enqueue",
    "worker": "worker",
    "status": "status",
    "stop": "stop",
    "resume": "stop",
    "audit": "audit",
    "reconcile": "reconcile",
    "report": "report",
    "export": "export",
    "explain": "explain",
    "simulate": "simulate",
    "flower": "flower",
    "db": "db",
}
"""Command name → module of this package that defines it under the same name."""

EXIT_CODES = """\b
Exit codes:
  0  done
  1  failure, or findings
  2  wrong usage, or an input that cannot be read
  3  configuration refused, a service unreachable, or a dataset paused by itself
  4  a cap is reached and work is left
  5  stopped by the operator with work left
  130  interrupted by Ctrl-C"""


class LazyGroup(click.Group):
    """Imports a command's module only when it is called, so that `--help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(cls=LazyGroup, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="%(version)s")
def cli() -> None:
    """Answer prompts with a target model and rebuild the exact token ids, to train an EAGLE-3 drafter."""


def main() -> None:
    """Run the command line; every error meant for the user becomes one sentence and an exit code."""
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Aborted.", err=True)
        status = ExitCode.INTERRUPTED
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except Eagle3genError as error:
        click.echo(f"Error: {error}", err=True)
        status = error.exit_code
    except KeyboardInterrupt:
        status = ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing to say, and nobody to say it to.
        sys.stderr.close()
        status = ExitCode.FAILURE
    sys.exit(int(status or 0))
