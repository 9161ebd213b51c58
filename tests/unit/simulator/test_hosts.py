"""Hosts and their rates, as files and options write them."""

from decimal import Decimal

import pytest

from eagle3gen.simulator.host import HOSTS, PARAMETERS, Host
from eagle3gen.simulator.hosts import read_hosts
from eagle3gen.simulator.knobs import BadKnob
from eagle3gen.simulator.rates import rate_of, read_rates

TABLE = {"name": "Cheap", "tag": "cheap/fp8", "prompt": "0.05", "completion": "0.10"}
FILE = """
[[hosts]]
name = "Cheap"
tag = "cheap/fp8"
prompt = 0.05
completion = 0.1
cached = 0.01
max_completion_tokens = 32768
parameters = ["max_tokens", "tools"]
cancels = false

[[hosts]]
name = "Dear"
tag = "dear"
quantization = "bf16"
prompt = "3"
completion = 15
"""


def test_a_file_names_hosts_with_all_that_they_have(tmp_path) -> None:
    (tmp_path / "hosts.toml").write_text(FILE, "utf-8")
    cheap, dear = read_hosts(str(tmp_path / "hosts.toml"))
    assert cheap == Host(
        name="Cheap",
        tag="cheap/fp8",
        quantization="fp8",
        prompt_usd_per_million=Decimal("0.05"),
        completion_usd_per_million=Decimal("0.1"),
        cached_usd_per_million=Decimal("0.01"),
        max_completion_tokens=32_768,
        parameters=("max_tokens", "tools"),
        cancels=False,
    )
    assert (dear.slug, dear.quantization, dear.completion_usd_per_million) == ("dear", "bf16", 15)
    assert (dear.parameters, dear.cancels) == (PARAMETERS, True)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"prompt": "cheap"},
        {"completion": -1},
        {"context_length": "long"},
        {"colour": "red"},
        {"tag": ""},
    ],
)
def test_a_wrong_host_is_refused(change) -> None:
    with pytest.raises(BadKnob):
        read_hosts([TABLE | change])


@pytest.mark.parametrize("missing", ["name", "tag", "prompt", "completion"])
def test_a_host_has_a_name_and_prices(missing) -> None:
    with pytest.raises(BadKnob, match="a host needs"):
        read_hosts([{name: value for name, value in TABLE.items() if name != missing}])


@pytest.mark.parametrize("told", ["nowhere.toml", [], {}, None, 3, ["Chutes"]])
def test_what_is_no_list_of_hosts_is_refused(told) -> None:
    with pytest.raises(BadKnob):
        read_hosts(told)


def test_tokens_in_the_cache_have_their_own_price() -> None:
    assert HOSTS[0].price(100, 0, 40).total == (60 * Decimal("0.6") + 40 * Decimal("0.1")) / 1_000_000
    assert HOSTS[1].price(100, 0, 40) == HOSTS[1].price(100, 0)


def test_a_rate_is_for_one_host_or_for_each() -> None:
    rates = read_rates(["600", "Chutes=60"])
    assert (rate_of(rates, "Chutes"), rate_of(rates, "Inceptron")) == (60, 600)
    assert rate_of(read_rates("Chutes=60"), "Inceptron") is None
    assert read_rates(600) == read_rates("600")


@pytest.mark.parametrize("told", ["fast", "Chutes=", "Chutes=-1", "Chutes=1.5", ""])
def test_a_rate_that_is_wrongly_written_is_refused(told) -> None:
    with pytest.raises(BadKnob):
        read_rates(told)
