"""A fleet: database and broker by their addresses alone, workers as separate processes."""

import signal
import time

from .conftest import flags


def test_a_fleet_of_two_workers_answers_a_dataset(simulate, terminal, prompts, database_url, redis_url) -> None:
    """enqueue, two workers, status, export, audit: all by DATABASE_URL and REDIS_URL; SIGTERM ends the workers."""
    simulator = simulate("--latency", "0.5")
    terminal.environment |= {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    added = terminal("enqueue", prompts(60), *flags(simulator))
    assert added.code == 0, added.err
    assert added.json["datasets"][0]["added"] == 60
    workers = [terminal.start("worker", "--queue", "short", "--concurrency", 10) for _ in range(2)]
    until = time.monotonic() + 60
    while (found := terminal("status", "--json").json["datasets"][0])["done"] < 60:
        assert time.monotonic() < until, found
        assert all(w.poll() is None for w in workers)
    for w in workers:
        w.send_signal(signal.SIGTERM)
    assert [terminal.wait(w).code for w in workers] == [0, 0]
    assert simulator.bill()["calls"] == 60
    assert terminal("audit").code == 0
    assert terminal("export").code == 0
    assert len((terminal.cwd / "export" / "tokens.jsonl").read_text("utf-8").splitlines()) == 60


def test_enqueueing_again_adds_only_what_is_new(simulate, terminal, prompts, database_url, redis_url) -> None:
    simulator = simulate()
    terminal.environment |= {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    assert terminal("enqueue", prompts(10), *flags(simulator)).json["datasets"][0]["added"] == 10
    (row,) = terminal("enqueue", prompts(15), *flags(simulator)).json["datasets"]
    assert (row["added"], row["duplicates"]) == (5, 10)


def test_a_worker_refuses_to_start_with_another_tokenizer(
    simulate, terminal, prompts, database_url, redis_url, tmp_path
) -> None:
    """The folder was changed after the dataset was enqueued with it."""
    import shutil
    from importlib.resources import files

    folder = tmp_path / "tokenizer"
    shutil.copytree(str(files("eagle3gen.tokens.builtin") / "kimi_mini"), folder)
    simulator = simulate()
    terminal.environment |= {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    words = ["--endpoint-url", simulator.url, "--tokenizer", folder]
    assert terminal("enqueue", prompts(2), *words).code == 0
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text("utf-8").replace("'## Return of '", "'## Result of '"), "utf-8")
    ended = terminal("worker", "--queue", "short")
    assert ended.code == 3
    assert "is not the one dataset asked was enqueued with" in ended.err
    assert "Traceback" not in ended.err
    assert simulator.bill()["calls"] == 0
