"""Rows as the trainers read them."""

from decimal import Decimal

from eagle3gen.flow.export import token_row
from eagle3gen.flow.status import as_json, at_cap, finished
from eagle3gen.ledger.demand import Pending
from eagle3gen.ledger.ids import encode_ids
from eagle3gen.ledger.money import Amount
from eagle3gen.ledger.reading import SampleRow
from eagle3gen.ledger.states import DatasetState, PromptState
from eagle3gen.records import Verdict
from tests.making import dataset_totals

SAMPLE = SampleRow(
    prompt_id=5, key=bytes(range(32)), source="f line 3", max_tokens=99, verdict=Verdict.EXACT_COUNT,
    prompt_ids=encode_ids([7, 8, 9]), output_ids=encode_ids([1, 2]), output_len=2, difference=0, prompt_difference=0,
    tokenizer_sha256="s", generation_id="g", model="m-0127", host="h", finish_reason="stop", prompt_tokens=3,
    completion_tokens=2, reasoning_tokens=1, cost_usd=Decimal("0.00000120"),
)  # fmt: skip


def test_the_mask_is_zero_on_the_prompt_and_one_on_every_emitted_token() -> None:
    row = token_row(dataset_totals(), SAMPLE, lambda _, ids: str(list(ids)))
    assert row["input_ids"] == [7, 8, 9, 1, 2]
    assert row["loss_mask"] == [0, 0, 0, 1, 1]
    assert row["text"] == "[7, 8, 9, 1, 2]"


def test_the_metadata_says_where_a_row_comes_from() -> None:
    row = token_row(dataset_totals(), SAMPLE, lambda *_: "")
    assert row["metadata"]["cost_usd"] == "0.0000012"
    assert row["metadata"]["sampling_params"] == {"temperature": 1, "max_tokens": 99}
    assert row["metadata"]["source"] == "f line 3"
    assert row["primary_id"] == "set-0001020304050607"


def test_pending_counts_all_that_waits_its_turn() -> None:
    counts = {PromptState.WAITING: 1, PromptState.PENDING: 2, PromptState.QUEUED: 3, PromptState.IN_FLIGHT: 4}
    (row,) = as_json([dataset_totals(counts=counts)])
    assert (row["pending"], row["in_flight"], row["prompts"]) == (6, 4, 10)


def test_money_is_a_string_with_all_its_digits() -> None:
    (row,) = as_json([dataset_totals(cost_usd=Decimal("1234.000000000123"))])
    assert row["cost_usd"] == "1234.000000000123"


def test_a_dataset_is_at_its_cap_when_no_pending_prompt_fits() -> None:
    counts = {PromptState.PENDING: 5}
    assert at_cap(dataset_totals(counts=counts, pending=Pending(fits=False, least=Amount(100))))
    assert not at_cap(dataset_totals(counts=counts, pending=Pending(fits=True, least=Amount(100))))
    assert not at_cap(dataset_totals())


def test_an_open_call_may_still_make_room() -> None:
    counts = {PromptState.PENDING: 5, PromptState.IN_FLIGHT: 10}
    assert not at_cap(dataset_totals(counts=counts, pending=Pending(fits=False, least=Amount(100))))


def test_a_run_waits_for_what_is_in_flight_even_if_the_dataset_is_stopped() -> None:
    stopped = {"state": DatasetState.STOPPED}
    assert not finished(dataset_totals(counts={PromptState.IN_FLIGHT: 1}, **stopped))
    assert finished(dataset_totals(counts={PromptState.PENDING: 1}, **stopped))
    assert not finished(dataset_totals(counts={PromptState.PENDING: 1}))
    assert finished(dataset_totals(counts={PromptState.DONE: 1, PromptState.FAILED: 1}))
