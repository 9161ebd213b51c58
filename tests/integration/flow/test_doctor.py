"""The preflight against the simulator: the green case, and each red one in one sentence."""

from dataclasses import replace

import pytest
from pydantic import SecretStr

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.routing import Routing
from eagle3gen.errors import ServiceUnreachable, TokenizerRefused
from eagle3gen.flow.doctor import Patient, examine
from tests.integration.simulator.conftest import QUICK, simulator_at


async def fine() -> str:
    return "fine"


async def away() -> str:
    raise ServiceUnreachable("it is away")


def refused() -> str:
    raise TokenizerRefused("<|im_end|> is 163533")


@pytest.fixture
async def patient(tmp_path, request):
    options = replace(QUICK, **getattr(request, "param", {}))
    async with simulator_at(tmp_path, options) as simulator:
        endpoint = Endpoint(simulator.url, SecretStr("sk-1"), connections=2)
        yield Patient(
            endpoint=endpoint, model="moonshotai/kimi-k2.5", routing=Routing(), sampling={}, tokenizer=lambda: "k2.5",
            ledger=fine, broker=fine, files_needed=10, files_allowed=lambda: 10,
        )  # fmt: skip
        await endpoint.close()


async def bad(patient: Patient) -> dict[str, str]:
    return {f.check: f.says for f in await examine(patient) if f.ok is False}


async def test_all_is_well(patient) -> None:
    findings = await examine(patient)
    assert {f.check for f in findings if f.ok} >= {
        "tokenizer", "open files", "database", "broker", "sampling", "endpoint", "key", "hosts", "host", "prices",
    }  # fmt: skip
    assert not any(f.ok is False for f in findings)


@pytest.mark.parametrize(
    ("change", "check", "said"),
    [
        ({"tokenizer": refused}, "tokenizer", "163533"),
        ({"ledger": away}, "database", "it is away"),
        ({"broker": away}, "broker", "it is away"),
        ({"files_allowed": lambda: 9}, "open files", "9 files may be open, 10 are needed"),
        ({"sampling": {"temperature": 0.7}}, "sampling", "only temperature 1"),
        ({"sampling": {"temperature": 7}}, "sampling", "between 0 and 2"),
        ({"routing": Routing(only=["nowhere"])}, "hosts", "0 of 3 hosts"),
    ],
)
async def test_each_fault_is_told_by_its_own_check_alone(patient, change, check, said) -> None:
    found = await bad(replace(patient, **change))
    assert list(found) == [check]
    assert said in found[check]


@pytest.mark.parametrize("patient", [{"api_key": "another"}], indirect=True)
async def test_a_key_that_is_refused_is_told(patient) -> None:
    assert "the endpoint refuses the key (401)" in (await bad(patient))["key"]


@pytest.mark.parametrize("patient", [{"models": ("another/model",)}], indirect=True)
async def test_a_model_that_nobody_serves_is_told(patient) -> None:
    findings = {f.check: f for f in await examine(patient)}
    assert not findings["hosts"].ok
    assert "lists no moonshotai/kimi-k2.5" in findings["hosts"].says


async def test_an_endpoint_that_is_away_is_told_and_the_rest_is_looked_at_all_the_same(patient) -> None:
    gone = Endpoint("http://127.0.0.1:1/v1", None, connections=1)
    found = await bad(replace(patient, endpoint=gone))
    await gone.close()
    assert set(found) == {"endpoint", "key", "hosts"}
