"""The simulator's replies beside real ones: the same fields in the same places, with values of the same kind."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"properties": {"location": {"type": "string"}}, "required": ["location"]},
        },
    }
]


@pytest.fixture
def recorded(shared):
    """Read a real reply: its text, blanks and all."""
    return lambda name: next((shared / "recorded" / "openrouter").glob(f"{name}_*")).read_text("utf-8")


def shape(value: object) -> object:
    """The fields and kinds of a JSON value; lists are as their first item."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def events(text: str) -> list[dict]:
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]


def shapes(found: list[dict]) -> set[str]:
    return {json.dumps(shape(event), sort_keys=True) for event in found}


async def test_an_answer_has_the_fields_of_a_real_one(running, recorded) -> None:
    real = recorded("01")
    async with running(tool_share=0.0) as simulator:
        reply = await simulator.ask()
    assert real.startswith("\n         \n")
    assert reply.text.startswith("\n         \n")
    assert shape(reply.json()) == shape(json.loads(real))


async def test_a_tool_call_has_the_fields_of_a_real_one(running, recorded) -> None:
    real = json.loads(recorded("02"))
    async with running(tool_share=1.0) as simulator:
        replies = [(await simulator.ask(f"q {n}", tools=TOOLS)).json() for n in range(12)]
    silent = [reply for reply in replies if reply["choices"][0]["message"]["content"] is None]
    assert shape(silent[0]) == shape(real)
    assert silent[0]["choices"][0]["message"]["tool_calls"][0]["id"].startswith("functions.weather:")


@pytest.mark.parametrize(("name", "tools"), [("05", []), ("06", TOOLS)])
async def test_a_stream_has_the_events_of_a_real_one(running, recorded, name, tools) -> None:
    real = recorded(name)
    async with running(tool_share=1.0) as simulator:
        texts = [(await simulator.ask(f"q {n}", tools=tools, stream=True)).text for n in range(16)]
    known = shapes([event for text in texts for event in events(text)])
    assert shapes(events(real)) - known == set()
    assert all(text.startswith(": OPENROUTER PROCESSING\n\n") for text in [real, *texts])
    assert all(text.rstrip().endswith("data: [DONE]") for text in [real, *texts])


async def test_the_counts_may_come_on_an_event_without_choices_as_in_a_real_stream(running, recorded) -> None:
    real = events(recorded("22"))[-1]
    async with running() as simulator:
        lasts = [events((await simulator.ask(f"q {n}", stream=True)).text)[-1] for n in range(16)]
    (ours, *_) = [event for event in lasts if event["choices"] == []]
    assert shape(ours) == shape(real)


async def test_an_unaffordable_limit_is_refused_in_the_real_words(running, recorded) -> None:
    real = json.loads(recorded("26"))["error"]
    async with running(credits=Decimal("0.01")) as simulator:
        reply = await simulator.ask(max_tokens=32_000)
    ours = reply.json()["error"]
    assert reply.status_code == ours["code"] == real["code"] == 402
    assert shape(ours) == shape(real)
    assert words(ours["message"]) == words(real["message"])


def words(message: str) -> list[str]:
    return ["N" if word.strip(".").isdigit() else word for word in message.split()]


async def test_names_that_serve_nothing_are_refused_in_the_real_words(running, recorded) -> None:
    real = json.loads(recorded("27"))["error"]
    async with running() as simulator:
        ours = (await simulator.ask(provider={"only": ["openai"]})).json()["error"]
    assert (ours["message"], ours["code"]) == (real["message"], real["code"])
    assert shape(ours["metadata"]) == shape(real["metadata"])


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("24", "inside_null_choices"),
        ("13", "status_429_text"),
        ("25", "status_429_nested"),
        ("32", "status_403_moderation"),
    ],
)
async def test_an_error_has_the_fields_of_a_real_one(running, recorded, name, fault) -> None:
    """At least: newer replies have more of them."""
    real = json.loads(recorded(name))["error"]
    async with running(fault=(("all", fault, 1.0),)) as simulator:
        seen = [json.loads((await simulator.ask(f"q {n}")).text)["error"] for n in range(8)]
    fits = [e for e in seen if real.keys() <= e.keys() and real["metadata"].keys() <= e["metadata"].keys()]
    assert fits
    assert {name: type(real[name]) for name in real} == {name: type(fits[0][name]) for name in real}


async def test_a_raw_that_is_an_object_is_met_in_real_life(running, recorded) -> None:
    real = json.loads(recorded("29"))["metadata"]
    async with running(fault=(("all", "status_502", 1.0),)) as simulator:
        seen = [(await simulator.ask(f"q {n}")).json()["error"]["metadata"] for n in range(8)]
    raw = next(metadata["raw"] for metadata in seen if "raw" in metadata)
    assert isinstance(real["raw"], dict)
    assert {"object", "message", "code"} <= raw.keys() & real["raw"].keys()


async def test_a_reply_of_blanks_only_is_met_in_real_life(running, recorded) -> None:
    async with running(fault=(("all", "closed_early", 1.0),)) as simulator:
        reply = await simulator.ask()
    assert not recorded("41").strip()
    assert not reply.text.strip()


async def test_encrypted_reasoning_has_the_fields_of_a_real_one(running, recorded) -> None:
    real = json.loads(recorded("15"))["choices"][0]["message"]
    async with running(fault=(("all", "encrypted_reasoning", 1.0),)) as simulator:
        ours = (await simulator.ask()).json()["choices"][0]["message"]
    assert ours["reasoning"] is real["reasoning"] is None
    (item,), (real_item,) = ours["reasoning_details"], real["reasoning_details"]
    assert (item["type"], item["format"]) == (real_item["type"], real_item["format"])
    assert item.keys() <= real_item.keys()


async def test_the_clients_own_key_at_a_host_is_told_as_in_real_life(running, recorded) -> None:
    real = json.loads(recorded("18"))["usage"]
    async with running(byok=True) as simulator:
        ours = (await simulator.ask()).json()["usage"]
    assert (ours["cost"], ours["is_byok"]) == (real["cost"], real["is_byok"]) == (0, True)
    assert ours["cost_details"].keys() == real["cost_details"].keys()
    assert ours["cost_details"]["upstream_inference_cost"] > 0


async def test_an_answer_all_in_reasoning_is_met_in_real_life(running, recorded) -> None:
    real = json.loads(recorded("36"))["choices"][0]
    async with running(fault=(("all", "all_in_reasoning", 1.0),)) as simulator:
        ours = (await simulator.ask()).json()["choices"][0]
    assert ours["message"]["content"] == real["message"]["content"] == ""
    assert ours["finish_reason"] == real["finish_reason"] == "stop"


async def test_a_record_has_the_fields_of_a_real_one(running, recorded) -> None:
    real = json.loads(recorded("40"))["data"]
    async with running(generation_delay_seconds=0.0) as simulator:
        name = (await simulator.ask()).json()["id"]
        ours = (await simulator.http.get(f"{simulator.url}/generation", params={"id": name})).json()["data"]
    assert real.keys() <= ours.keys()
    assert ours["request_id"].startswith("req-")
    assert len(ours["id"]) == len(real["id"])
    assert isinstance(ours["provider_responses"], list)


def test_no_real_reply_is_copied(shared) -> None:
    """The shapes are alike, the texts are our own."""
    code = "\n".join(
        path.read_text("utf-8") for path in (Path(__file__).parents[3] / "eagle3gen" / "simulator").glob("*.py")
    )
    for path in (shared / "recorded" / "openrouter").glob("*.*"):
        for line in path.read_text("utf-8").split("\n"):
            assert len(line) < 120 or line[:120] not in code
