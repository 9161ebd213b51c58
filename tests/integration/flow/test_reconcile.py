"""Lost calls are settled from the simulator's records, and the books compared with its account of the key."""

import asyncio
import uuid
from dataclasses import replace
from decimal import Decimal

import pytest

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.flow.purse import first_reading
from eagle3gen.flow.reconcile import reconcile
from eagle3gen.ledger.books import audit_books
from eagle3gen.ledger.connect import open_ledger
from eagle3gen.ledger.datasets import add_dataset, datasets
from eagle3gen.ledger.demand import queue_prompts
from eagle3gen.ledger.loading import load_prompts
from eagle3gen.ledger.money import ZERO
from eagle3gen.ledger.settlements import Settlement
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.ledger.writer import LedgerWriter
from eagle3gen.records import Prices, Queue
from tests.integration.ledger.conftest import prompt_rows, spec
from tests.integration.simulator.conftest import QUICK, simulator_at

PRICES = Prices(prompt_usd=Decimal("0.0000006"), completion_usd=Decimal("0.000003"))


@pytest.fixture
async def ledger(database_url):
    opened = open_ledger(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def writer(ledger):
    made = LedgerWriter(ledger, uuid.uuid4())
    await made.start()
    yield made
    await made.close(5)


class Scene:
    """A dataset whose calls are made and then lost."""

    def __init__(self, ledger, writer, simulator) -> None:
        self.ledger, self.writer, self.url = ledger, writer, simulator.url
        self.endpoint = Endpoint(simulator.url, None, connections=10)

    async def begin(self, count: int) -> list:
        async with self.ledger.begin() as conn:
            dataset_id = await add_dataset(conn, spec(endpoint_url=self.url, prices=PRICES))
            await load_prompts(conn, dataset_id, prompt_rows(count, max_tokens=5000))
            ids = await queue_prompts(conn, dataset_id, Queue.SHORT, count)
        await first_reading(self.ledger, self.endpoint)
        return [await self.writer.claim(i) for i in ids]

    async def call_and_lose(self, claim, *, noted: bool = True) -> None:
        """The endpoint answers and bills; the worker tells the ledger nothing but, at best, the call's id."""
        request = CompletionRequest(
            model="moonshotai/kimi-k2.5", messages=[{"role": "user", "content": str(claim.prompt_id)}], max_tokens=5000
        )
        note = (lambda generation: self.writer.note(claim.attempt_id, generation)) if noted else None
        await self.endpoint.complete(request, deadline_seconds=20, on_generation_id=note)
        await self.writer.settle(
            Settlement(claim=claim, outcome=Outcome.HELD, prompt_state=PromptState.PENDING, error="lost")
        )

    async def reconcile(self, *, patience: float = 10, write_off: bool = False):
        return await reconcile(
            self.ledger, lambda _: self.endpoint, patience_seconds=patience, write_off=write_off,
            progress=lambda *_: None,
        )  # fmt: skip

    async def dataset(self):
        async with self.ledger.begin() as conn:
            assert await audit_books(conn) == []
            (found,) = await datasets(conn)
        return found


@pytest.fixture
async def scene(ledger, writer, tmp_path, request):
    options = replace(QUICK, **getattr(request, "param", {}))
    async with simulator_at(tmp_path, options) as simulator:
        made = Scene(ledger, writer, simulator)
        made.simulator = simulator
        yield made
        await made.endpoint.close()


async def test_lost_calls_are_settled_from_the_endpoints_records_to_the_cent(scene) -> None:
    claims = await scene.begin(3)
    await asyncio.gather(*(scene.call_and_lose(c) for c in claims))
    assert (await scene.dataset()).held_tokens == 15_000
    result = await scene.reconcile()
    bill, found = await scene.simulator.bill(), await scene.dataset()
    assert (result.settled, result.left, result.clean) == (3, [], True)
    assert (found.spent_tokens, found.cost_usd) == (bill["completion_tokens"], Decimal(bill["cost_usd"]))
    assert found.held == ZERO
    (check,) = result.keys
    assert (check.used_usd, check.unexplained_usd) == (Decimal(bill["cost_usd"]), 0)


async def test_a_call_without_an_id_stays_held_and_shows_as_unexplained(scene) -> None:
    (claim,) = await scene.begin(1)
    await scene.call_and_lose(claim, noted=False)
    result = await scene.reconcile(patience=0)
    bill = await scene.simulator.bill()
    assert ([u.prompt_id for u in result.left], result.left_amount.tokens) == ([claim.prompt_id], 5000)
    assert result.keys[0].unexplained_usd == Decimal(bill["cost_usd"]) > 0
    assert not result.clean


async def test_a_write_off_frees_the_caps_and_the_key_still_tells_the_truth(scene) -> None:
    (claim,) = await scene.begin(1)
    await scene.call_and_lose(claim, noted=False)
    result = await scene.reconcile(patience=0, write_off=True)
    found = await scene.dataset()
    assert (result.written_off, found.held, found.spent) == (1, ZERO, ZERO)
    assert result.keys[0].unexplained_usd > 0
    assert (await scene.reconcile(patience=0)).left == []


@pytest.mark.parametrize("scene", [{"generation_delay_seconds": 1.5}], indirect=True)
async def test_a_record_that_appears_late_is_waited_for(scene) -> None:
    (claim,) = await scene.begin(1)
    await scene.call_and_lose(claim)
    assert (await scene.reconcile(patience=0)).settled == 0
    assert (await scene.reconcile(patience=10)).settled == 1


async def test_reconciling_twice_changes_nothing(scene) -> None:
    (claim,) = await scene.begin(1)
    await scene.call_and_lose(claim)
    await scene.reconcile()
    before = await scene.dataset()
    result = await scene.reconcile()
    assert (result.settled, result.clean) == (0, True)
    assert await scene.dataset() == before


async def test_an_endpoint_that_is_away_leaves_everything_held(scene) -> None:
    (claim,) = await scene.begin(1)
    await scene.call_and_lose(claim)
    await scene.endpoint.close()
    scene.endpoint = Endpoint("http://127.0.0.1:1/v1", None, connections=1)
    with pytest.raises(Exception, match="does not answer"):
        await scene.reconcile(patience=0)
    assert (await scene.dataset()).held_tokens == 5000
