"""Bad input gets one clear sentence, the right exit code, and no traceback."""

import shutil
from importlib.resources import files

import pytest

from .conftest import flags


def refused(ended, code: int, *words: str) -> None:
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    errors = [line for line in ended.err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, ended.err
    for word in words:
        assert word in errors[0]


def test_a_missing_file(simulate, terminal) -> None:
    refused(terminal("run", "nothing.jsonl", *flags(simulate())), 2, "nothing.jsonl does not exist")


def test_an_empty_file(simulate, terminal) -> None:
    (terminal.cwd / "empty.jsonl").touch()
    refused(terminal("run", "empty.jsonl", *flags(simulate())), 2, "empty.jsonl is empty")


def test_a_folder_in_place_of_a_file(simulate, terminal) -> None:
    (terminal.cwd / "folder").mkdir()
    refused(terminal("run", "folder", *flags(simulate())), 2, "folder is not a file")


def test_a_broken_line_is_reported_with_its_number_and_the_rest_goes_on(simulate, terminal, prompts) -> None:
    path = terminal.cwd / prompts(20)
    lines = path.read_text("utf-8").splitlines()
    lines[16] = lines[16][:-5]
    path.write_text("\n".join(lines), "utf-8")
    simulator = simulate("--latency", "0.1")
    ended = terminal("run", path.name, *flags(simulator))
    assert ended.code == 0, ended.err
    assert "asked.jsonl line 17: " in ended.err
    assert ended.json["datasets"][0]["done"] == 19
    strict = terminal("run", path.name, "--strict", "--state-dir", "other", *flags(simulator))
    refused(strict, 2, "line 17", "--strict")


def test_no_key(terminal, prompts) -> None:
    refused(terminal("run", prompts(1), "--tokenizer", "builtin:kimi-mini", "--yes"), 3, "OPENROUTER_API_KEY")


def test_money_is_not_spent_without_a_yes(terminal, prompts) -> None:
    terminal.environment["OPENROUTER_API_KEY"] = "k"
    ended = terminal("run", prompts(1), "--tokenizer", "builtin:kimi-mini")
    refused(ended, 2, "spends money", "--yes")


def test_an_endpoint_that_is_down(terminal, prompts) -> None:
    words = ["--endpoint-url", "http://127.0.0.1:9/v1", "--tokenizer", "builtin:kimi-mini"]
    refused(terminal("run", prompts(1), *words), 3, "http://127.0.0.1:9/v1 does not answer")


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://x/v1", "http://user:pass@host/v1", "http://host/v1?key=1"])
def test_an_address_that_is_none(terminal, prompts, url) -> None:
    ended = terminal("run", prompts(1), "--endpoint-url", url, "--tokenizer", "builtin:kimi-mini")
    refused(ended, 2, "--endpoint-url")


def test_a_tokenizer_with_a_shifted_id_stops_the_run_before_the_first_call(simulate, terminal, prompts) -> None:
    """163533 in place of 163586 for <|im_end|> once ruined a whole training set."""
    folder = terminal.cwd / "wrong"
    shutil.copytree(str(files("eagle3gen.tokens.builtin") / "kimi_mini"), folder)
    config = folder / "tokenizer_config.json"
    config.write_text(config.read_text("utf-8").replace('"163586"', '"163533"'), "utf-8")
    simulator = simulate()
    words = ["--endpoint-url", simulator.url, "--tokenizer", folder]
    refused(terminal("run", prompts(1), *words), 3, "<|im_end|> is 163533", "163586")
    assert simulator.bill()["calls"] == 0


def test_a_tokenizer_folder_that_is_not_there(simulate, terminal, prompts) -> None:
    words = ["--endpoint-url", simulate().url, "--tokenizer", "nowhere"]
    refused(terminal("run", prompts(1), *words), 3, "there is no tokenizer folder", "nowhere")


def test_a_state_directory_that_another_run_uses(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "3")
    name = prompts(3)
    running = terminal.start("run", name, *flags(simulator))
    while simulator.bill()["open"] == 0:
        assert running.poll() is None
    refused(terminal("run", name, *flags(simulator)), 3, "is in use by process", str(running.pid))
    assert terminal("status").code == 0
    assert terminal.wait(running).code == 0


@pytest.mark.parametrize("option", ["--state-dir", "--out"])
def test_a_place_that_cannot_be_written(simulate, terminal, prompts, option) -> None:
    simulator = simulate()
    (terminal.cwd / "file").touch()
    refused(terminal("run", prompts(1), option, "file/below", *flags(simulator)), 3, "file/below")
    assert simulator.bill()["calls"] == 0


def test_a_dataset_whose_model_changed(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "0.1")
    name = prompts(2)
    assert terminal("run", name, *flags(simulator)).code == 0
    ended = terminal("run", name, "--model", "another", *flags(simulator))
    refused(ended, 2, "model is moonshotai/kimi-k2.5, not another")


@pytest.mark.parametrize("command", ["status", "audit", "export", "resume"])
def test_a_ledger_that_is_not_there(terminal, command) -> None:
    refused(terminal(command), 2, "there is no ledger in")


def test_a_database_that_is_down(terminal) -> None:
    terminal.environment["DATABASE_URL"] = "postgresql://me:hunter2@127.0.0.1:9/x"
    ended = terminal("status")
    refused(ended, 3, "Postgres at 127.0.0.1:9")
    assert "hunter2" not in ended.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["worker", "-q", "short"], "REDIS_URL"),
        (["db", "upgrade"], "DATABASE_URL"),
        (["flower"], "no ledger"),
        (["stop"], "--all"),
        (["simulate", "--tokenizer", "nowhere"], "nowhere"),
        (["run", "x", "--api-key-file", "nokey", "--tokenizer", "builtin:kimi-mini"], "nokey"),
    ],
)
def test_a_command_that_lacks_something(terminal, words, sentence) -> None:
    ended = terminal(*words)
    refused(ended, ended.code, sentence)
    assert ended.code in {2, 3}


def test_an_unknown_command_and_option(terminal) -> None:
    refused(terminal("frobnicate"), 2, "No such command 'frobnicate'")
    refused(terminal("run", "--frobnicate"), 2, "No such option '--frobnicate'")
