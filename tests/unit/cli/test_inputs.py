"""What people may type or have in their environment, and the one sentence that answers it."""

import os
from pathlib import Path

import pytest

from eagle3gen.cli import intake, options
from eagle3gen.config import Settings
from eagle3gen.errors import ConfigurationError, InputError
from eagle3gen.flow.enqueue import dataset_names


@pytest.mark.parametrize("url", ["http://[::1/v1", "ftp://host/v1", "host", ""])
def test_an_address_that_is_none_is_an_input_error(url) -> None:
    with pytest.raises(InputError, match="is not an http"):
        intake._base_url(url)


def test_versions_of_a_file_are_datasets_of_their_own() -> None:
    assert list(dataset_names([Path("data.v1.jsonl"), Path("data.v2.json"), Path("x/data.jsonl")])) == [
        "data.v1", "data.v2", "data",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [".jsonl", "two\nlines.jsonl", "esc\x1b[0m.jsonl", os.fsdecode(b"bad\xff.jsonl")])
def test_a_name_that_no_terminal_shows_is_refused(name) -> None:
    with pytest.raises(InputError, match="rename the file") as caught:
        dataset_names([Path(name)])
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EAGLE3GEN_MAINTENANCE_SECONDS", "often"),
        ("EAGLE3GEN_LOG_LEVEL", "foo"),
        ("EAGLE3GEN_WORKER_TIMEOUT_SECONDS", "-1"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(monkeypatch, name, value) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"the environment variable {name} cannot be read"):
        Settings()


def test_a_key_file_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="does not hold one API key"):
        options.read_api_key(Path("/dev/zero"))
