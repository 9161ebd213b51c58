"""The life of one prompt: whatever happens, its attempt ends as settled, released or held."""

import asyncio
import random
from dataclasses import dataclass, field
from decimal import Decimal

import orjson
import pytest

from eagle3gen.endpoint.deadlines import Deadlines
from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import Reply
from eagle3gen.errors import ConfigurationError
from eagle3gen.flow.generate import Bench, Calls, generate
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.datasets import Dataset
from eagle3gen.ledger.settlements import Settlement
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Completion, Usage, Verdict
from eagle3gen.tokens.loading import load_tokenizer_once
from tests.making import claim, dataset

DATASET = dataset()
PAYLOAD = orjson.dumps({"messages": [{"role": "user", "content": "x"}], "tools": []})


@dataclass
class Books:
    """Remembers what was settled."""

    due: bool = True
    payload: bytes = PAYLOAD
    settled: list[Settlement] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)
    of: Dataset = DATASET

    async def claim(self, prompt_id: int) -> Claim | None:
        if not self.due:
            return None
        return claim(prompt_id=prompt_id, payload=self.payload, max_tokens=50)

    async def settle(self, settlement: Settlement) -> None:
        await asyncio.sleep(0)
        self.settled.append(settlement)

    def note(self, attempt_id, generation_id: str) -> None:
        self.noted.append(generation_id)

    def dataset(self, dataset_id: int) -> Dataset:
        return self.of


@dataclass
class Scene:
    """A bench whose endpoint does what the test says."""

    answer: object
    books: Books = field(default_factory=Books)
    requests: list = field(default_factory=list)
    paused: list = field(default_factory=list)
    tokenizer_error: Exception | None = None
    calls: Calls = field(default_factory=Calls)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def complete(self, request, *, deadlines, transport, on_generation_id):
        self.requests.append(request)
        on_generation_id("gen-1")
        self.called.set()
        if isinstance(self.answer, float):
            await asyncio.sleep(self.answer)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def tokenizer(self, _dataset):
        if self.tokenizer_error:
            raise self.tokenizer_error
        return load_tokenizer_once("builtin:kimi-mini")

    async def pause(self, dataset, reason) -> None:
        self.paused.append((dataset.name, reason))

    async def pause_key(self, endpoint_url, reason) -> None:
        self.paused.append((endpoint_url, reason))

    def bench(self) -> Bench:
        return Bench(
            books=self.books, endpoint=lambda _: self, tokenizer=self.tokenizer, brake=self,
            deadlines=Deadlines(total=9),
            calls=self.calls, rng=random.Random(1),
        )  # fmt: skip

    async def run(self) -> Settlement:
        await generate(7, self.bench())
        (settlement,) = self.books.settled
        return settlement


TRUE_TOKENS = 2 + sum(len(load_tokenizer_once("builtin:kimi-mini").encoding.encode_text(t)) for t in (" r", " c"))


def answered(billed: int = TRUE_TOKENS, **changes) -> Reply:
    fields = {
        "generation_id": "g",
        "model": "m",
        "host": "h",
        "finish_reason": "stop",
        "reasoning": " r",
        "content": " c",
    }
    prompt = len(load_tokenizer_once("builtin:kimi-mini").prompt_ids([{"role": "user", "content": "x"}]))
    usage = Usage(prompt_tokens=prompt, completion_tokens=billed, cost_usd=Decimal("0.1"))
    completion = Completion(**{**fields, "usage": usage, **changes})
    return Reply(status=200, body=b"{}", seconds=1.0, completion=completion)


def refused(decision: Decision, billed: Billed) -> Reply:
    refusal = Refusal(kind="k", decision=decision, billed=billed, message="no", usage=Usage(completion_tokens=5))
    return Reply(status=500, body=b"", seconds=1.0, refusal=refusal)


async def test_a_sound_answer_is_settled_and_done() -> None:
    settlement = await Scene(answered()).run()
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.SETTLED, PromptState.DONE)
    assert settlement.stored.verdict is Verdict.EXACT_COUNT
    assert settlement.usage.cost_usd == Decimal("0.1")


async def test_the_request_says_what_the_dataset_and_the_queue_say() -> None:
    scene = Scene(answered())
    await scene.run()
    (request,) = scene.requests
    assert (request.model, request.max_tokens, request.sampling) == ("m", 50, {"temperature": 1})
    assert request.messages == [{"role": "user", "content": "x"}]


async def test_an_answer_whose_ids_are_not_proved_is_paid_and_rejected() -> None:
    settlement = await Scene(answered(50)).run()
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.SETTLED, PromptState.REJECTED)
    assert "billed beyond" in settlement.error


async def test_a_cut_answer_is_done_with_its_verdict() -> None:
    settlement = await Scene(answered(4, finish_reason="length")).run()
    assert (settlement.prompt_state, settlement.stored.verdict) == (PromptState.DONE, Verdict.TRUNCATED)


async def test_a_prompt_that_is_not_due_costs_no_call() -> None:
    scene = Scene(answered(), books=Books(due=False))
    await generate(7, scene.bench())
    assert scene.requests == scene.books.settled == []


@pytest.mark.parametrize(
    ("billed", "outcome"),
    [(Billed.NO, Outcome.RELEASED), (Billed.YES, Outcome.SETTLED), (Billed.MAYBE, Outcome.HELD)],
)
async def test_a_refusal_ends_the_attempt_as_its_bill_says(billed, outcome) -> None:
    settlement = await Scene(refused(Decision.RETRY, billed)).run()
    assert (settlement.outcome, settlement.prompt_state) == (outcome, PromptState.PENDING)
    assert settlement.not_before_seconds > 0


@pytest.mark.parametrize(
    ("decision", "paused"), [(Decision.PAUSE_KEY, ("http://x/v1", "key: no")), (Decision.PAUSE_DATASET, ("set", "no"))]
)
async def test_a_fault_of_the_key_pauses_its_endpoint_and_one_of_the_model_its_dataset(decision, paused) -> None:
    scene = Scene(refused(decision, Billed.NO))
    settlement = await scene.run()
    assert scene.paused == [paused]
    assert (settlement.outcome, settlement.prompt_state, settlement.count_try) == (
        Outcome.RELEASED, PromptState.PENDING, False,
    )  # fmt: skip


async def test_a_stopped_dataset_closes_the_call_and_holds_its_money() -> None:
    scene = Scene(30.0)
    running = asyncio.create_task(generate(7, scene.bench()))
    await scene.called.wait()
    assert scene.calls.cancel(2) == 0
    assert scene.calls.cancel(1) == 1
    await asyncio.wait_for(running, 2)
    (settlement,) = scene.books.settled
    assert (settlement.outcome, settlement.prompt_state, settlement.count_try) == (
        Outcome.HELD, PromptState.PENDING, False,
    )  # fmt: skip
    assert len(scene.calls) == 0


async def test_a_worker_that_is_shut_down_settles_before_it_goes() -> None:
    scene = Scene(30.0)
    running = asyncio.create_task(generate(7, scene.bench()))
    await scene.called.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (settlement,) = scene.books.settled
    assert (settlement.outcome, settlement.count_try) == (Outcome.HELD, False)


async def test_a_prompt_that_cannot_be_rendered_is_never_paid_for() -> None:
    """An image in a message: the prompt fails before the call."""
    picture = orjson.dumps({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})
    scene = Scene(answered(), books=Books(payload=picture))
    settlement = await scene.run()
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.RELEASED, PromptState.FAILED)
    assert scene.requests == []


async def test_a_tokenizer_that_is_refused_sends_nothing_and_pauses_the_dataset() -> None:
    scene = Scene(answered(), tokenizer_error=ConfigurationError("another tokenizer"))
    settlement = await scene.run()
    assert (settlement.outcome, scene.requests) == (Outcome.RELEASED, [])
    assert scene.paused == [("set", "another tokenizer")]


async def test_a_bug_of_ours_loses_no_sight_of_money() -> None:
    settlement = await Scene(RuntimeError("bug")).run()
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.HELD, PromptState.FAILED)
