"""Every command is listed, explained and quick to ask."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from eagle3gen.cli import COMMANDS, cli
from eagle3gen.errors import ExitCode

README = (Path(__file__).parents[3] / "README.md").read_text("utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command) -> None:
    result = CliRunner().invoke(cli, [command, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_command(command) -> None:
    assert re.search(rf"(eagle3gen|make) {command}\b", README), command


def test_help_prints_every_exit_code() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    assert all(re.search(rf"^ +{int(code)} ", output, re.MULTILINE) for code in ExitCode)


@pytest.mark.parametrize("command", ["run", "enqueue"])
def test_every_option_of_the_main_commands_says_what_it_is(command) -> None:
    context = cli.make_context("eagle3gen", ["--help"], resilient_parsing=True)
    found = cli.get_command(context, command)
    names = {option for parameter in found.params for option in parameter.opts}
    assert {"--model", "--tokenizer", "--token-cap", "--queue", "--strict", "--yes", "--json"} <= names


def test_the_options_that_the_readme_names_exist() -> None:
    context = cli.make_context("eagle3gen", ["--help"], resilient_parsing=True)
    known = {"--help", "--version"}
    for name in COMMANDS:
        command = cli.get_command(context, name)
        parts = [command, *getattr(command, "commands", {}).values()]
        known |= {option for part in parts for parameter in part.params for option in parameter.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", README)) - {"--scale"}
    assert named <= known
