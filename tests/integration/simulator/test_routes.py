"""Where calls go, and what the lists of models and hosts tell."""

from decimal import Decimal

import pytest

from eagle3gen.simulator.host import HOSTS, Host

CHEAP = Host(
    name="Cheap",
    tag="cheap/fp8",
    quantization="fp8",
    prompt_usd_per_million=Decimal("0.05"),
    completion_usd_per_million=Decimal("0.10"),
    max_completion_tokens=100,
    context_length=32_768,
    parameters=("max_tokens", "temperature"),
)


@pytest.mark.parametrize(
    ("provider", "hosts"),
    [
        ({"only": ["chutes"]}, {"Chutes"}),
        ({"ignore": ["chutes", "inceptron"]}, {"Moonshot AI"}),
        ({"order": ["inceptron"]}, {"Inceptron"}),
        ({"max_price": {"completion": 2}}, {"Chutes"}),
        ({"sort": "price"}, {"Chutes"}),
    ],
)
async def test_a_call_goes_where_its_client_wants(running, provider, hosts) -> None:
    async with running() as simulator:
        replies = [(await simulator.ask(f"q {n}", provider=provider)).json() for n in range(8)]
    assert {reply["provider"] for reply in replies} == hosts


async def test_no_host_left_is_a_404_with_both_sets(running) -> None:
    async with running() as simulator:
        named = await simulator.ask(provider={"only": ["fireworks"], "allow_fallbacks": False})
        dear = await simulator.ask(provider={"max_price": {"completion": "0.5"}})
        bill = await simulator.bill()
    assert named.status_code == dear.status_code == 404
    error = named.json()["error"]
    assert error["message"] == "No allowed providers are available for the selected model."
    assert error["metadata"]["available_providers"] == [host.slug for host in HOSTS]
    assert error["metadata"]["requested_providers"] == ["fireworks"]
    assert dear.json()["error"]["message"].startswith("No endpoints found")
    assert (bill["errors"], bill["open"], bill["by_host"]) == (2, 0, {})


async def test_the_credit_check_looks_at_the_cheapest_host_that_may_answer(running) -> None:
    async with running(credits=Decimal("0.00001"), hosts=(*HOSTS, CHEAP), mean_tokens=8) as simulator:
        assert (await simulator.ask(max_tokens=60)).status_code == 200
        refused = await simulator.ask(max_tokens=60, provider={"ignore": ["cheap"]})
    assert "can only afford" in refused.json()["error"]["message"]


async def test_a_host_ends_an_answer_at_its_own_longest(running) -> None:
    async with running(hosts=(CHEAP,), mean_tokens=3000, spread=0.1) as simulator:
        reply = (await simulator.ask()).json()
    assert reply["usage"]["completion_tokens"] == 100
    assert reply["choices"][0]["finish_reason"] == "length"


async def test_the_endpoints_of_a_model_tell_all_that_routing_needs(running) -> None:
    async with running(hosts=(CHEAP, *HOSTS), models=("a/b",)) as simulator:
        found = (await simulator.http.get(f"{simulator.url}/models/a/b/endpoints")).json()["data"]["endpoints"]
        unknown = await simulator.http.get(f"{simulator.url}/models/x/y/endpoints")
    cheap, moonshot = found[0], found[1]
    assert unknown.status_code == 404
    assert cheap["pricing"] == {"prompt": "0.00000005", "completion": "0.0000001", "request": "0", "discount": 0}
    assert moonshot["pricing"]["input_cache_read"] == "0.0000001"
    assert (cheap["name"], cheap["provider_name"], cheap["tag"]) == ("Cheap | a/b", "Cheap", "cheap/fp8")
    assert (cheap["quantization"], cheap["context_length"], cheap["max_completion_tokens"]) == ("fp8", 32_768, 100)
    assert (cheap["status"], cheap["supported_parameters"]) == (0, ["max_tokens", "temperature"])
    assert 0 < cheap["uptime_last_30m"] <= 100


async def test_the_list_of_models_has_prices(running) -> None:
    async with running(models=("a/b", "c/d")) as simulator:
        models = (await simulator.http.get(f"{simulator.url}/models")).json()["data"]
    assert [model["id"] for model in models] == ["a/b", "c/d"]
    assert models[0]["pricing"]["completion"] == "0.000002"
    assert models[0]["context_length"] == 262_144
    assert models[0]["top_provider"]["max_completion_tokens"] == 262_144


async def test_the_first_fallback_that_is_served_answers(running) -> None:
    async with running(models=("c/d",)) as simulator:
        reply = (await simulator.ask(model="a/b", models=["x/y", "c/d"])).json()
    assert reply["model"] == "c/d-0127"
