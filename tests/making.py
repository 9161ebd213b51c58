"""Values that many tests start from; each test says only what matters to it."""

from decimal import Decimal
from typing import Any
from uuid import uuid4

from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.datasets import Dataset
from eagle3gen.ledger.health import Breaker
from eagle3gen.ledger.money import UNCAPPED, ZERO, Amount
from eagle3gen.ledger.reading import DatasetTotals, PlanTotals
from eagle3gen.ledger.states import Admission, DatasetState
from eagle3gen.records import Queue

DATASET: dict[str, Any] = {
    "id": 1,
    "name": "set",
    "model": "m",
    "endpoint_url": "http://x/v1",
    "tokenizer": "builtin:kimi-mini",
    "tokenizer_sha256": "s",
    "sampling": {"temperature": 1},
    "routing": {},
    "state": DatasetState.OPEN,
    "state_reason": "",
    "cap_tokens": None,
    "cap_usd": None,
    "plan_cap": UNCAPPED,
    "admission": Admission.STRICT,
    "prices": None,
    "spent_tokens": 0,
    "held_tokens": 0,
    "open_tokens": 0,
    "cost_usd": Decimal(0),
    "held_usd": Decimal(0),
    "open_usd": Decimal(0),
    "unpriced_attempts": 0,
    "forecast": {},
    "reserve_tokens": 0,
    "reserve_usd": Decimal(0),
    "canary": 0,
    "canary_round": 1,
    "canary_launched": 0,
    "canary_judged": 0,
    "breaker": Breaker(),
    "recent": "",
}


def dataset(**changes: Any) -> Dataset:
    """An open dataset without cap and canary."""
    return Dataset(**{**DATASET, **changes})


def dataset_totals(**changes: Any) -> DatasetTotals:
    """The same, with no prompts."""
    return DatasetTotals(**{**DATASET, "counts": {}, "verdicts": {}, **changes})


def plan_totals(**changes: Any) -> PlanTotals:
    """A plan without caps that has cost nothing."""
    return PlanTotals(**{"cap": UNCAPPED, "spent": ZERO, "held": ZERO, "open": ZERO, **changes})


def claim(**changes: Any) -> Claim:
    """The right to answer prompt 1 of dataset 1 with up to 100 tokens."""
    most = changes.get("max_tokens", 100)
    fields = {
        "attempt_id": uuid4(),
        "prompt_id": 1,
        "dataset_id": 1,
        "payload": b"{}",
        "queue": Queue.SHORT,
        "max_tokens": most,
        "tries": 1,
        "hold": Amount(most),
        "worst": Amount(most),
    }
    return Claim(**{**fields, **changes})
