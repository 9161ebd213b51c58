"""Replies become money and states: the table of settling, row by row."""

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import Reply
from eagle3gen.flow import settling
from eagle3gen.ledger.health import Fault
from eagle3gen.ledger.settlements import StoredSample
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Completion, Usage, Verdict
from tests import making

BILLS = {Billed.NO: Outcome.RELEASED, Billed.YES: Outcome.SETTLED, Billed.MAYBE: Outcome.HELD}
USABLE = {
    Verdict.EXACT_IDS,
    Verdict.EXACT_LOGPROBS,
    Verdict.EXACT_COUNT,
    Verdict.REPAIRED,
    Verdict.TRUNCATED,
}


def claim(tries=1):
    return making.claim(tries=tries)


def refusal(**fields):
    fields = {"kind": "k", "decision": Decision.RETRY, "billed": Billed.NO, "message": "it failed.", **fields}
    return Refusal(**fields)


def settle(tries=1, seed=0, status=502, **fields):
    back = refusal(**fields)
    reply = Reply(status=status, body=b"", seconds=1.0, refusal=back)
    return settling.refused(claim(tries), reply, back, random.Random(seed))


@pytest.mark.parametrize("billed", list(Billed))
@pytest.mark.parametrize("decision", list(Decision))
@pytest.mark.parametrize("blames", [True, False])
@pytest.mark.parametrize("tries", [1, 2, 7, 8, 40])
def test_the_money_follows_the_bill_alone(billed, decision, blames, tries):
    """Whatever becomes of the prompt: not billed is released, billed is settled, unknown is held."""
    settlement = settle(tries, billed=billed, decision=decision, blames_prompt=blames)
    assert settlement.outcome is BILLS[billed]


@pytest.mark.parametrize("billed", list(Billed))
@pytest.mark.parametrize("decision", [Decision.PAUSE_DATASET, Decision.PAUSE_KEY])
@pytest.mark.parametrize("tries", [1, 8, 40])
def test_a_pause_is_not_the_prompts_fault(billed, decision, tries):
    """It stays pending, and the try is not counted."""
    settlement = settle(tries, billed=billed, decision=decision)
    assert (settlement.prompt_state, settlement.count_try) == (PromptState.PENDING, False)


@pytest.mark.parametrize("billed", list(Billed))
def test_a_permanent_fault_fails_the_prompt_at_once(billed):
    """The first try is the last."""
    settlement = settle(1, billed=billed, decision=Decision.FAIL_PROMPT)
    assert (settlement.prompt_state, settlement.count_try) == (PromptState.FAILED, True)


@pytest.mark.parametrize(
    ("billed", "tries", "state"),
    [
        (Billed.NO, 1, PromptState.PENDING),
        (Billed.NO, 7, PromptState.PENDING),
        (Billed.NO, 8, PromptState.FAILED),
        (Billed.MAYBE, 1, PromptState.PENDING),
        (Billed.MAYBE, 7, PromptState.PENDING),
        (Billed.MAYBE, 8, PromptState.FAILED),
        (Billed.MAYBE, 9, PromptState.FAILED),
        (Billed.YES, 1, PromptState.PENDING),
        (Billed.YES, 2, PromptState.FAILED),
        (Billed.YES, 8, PromptState.FAILED),
    ],
)
def test_tries_are_bounded_and_paid_ones_sooner(billed, tries, state):
    """Eight counted tries, but only two that are paid for."""
    settlement = settle(tries, billed=billed)
    assert (settlement.prompt_state, settlement.count_try) == (state, True)
    assert (settlement.not_before_seconds > 0) == (state is PromptState.PENDING)


@given(st.integers(1, 1000), st.integers(), st.none() | st.floats(0, 300))
def test_an_outage_fails_no_prompt(tries, seed, asked):
    """However long an endpoint is away: pending, uncounted, due again within minutes and not at once."""
    settlement = settle(tries, seed, blames_prompt=False, retry_after_seconds=asked)
    assert (settlement.prompt_state, settlement.count_try) == (PromptState.PENDING, False)
    assert (asked if asked is not None else 5.0) <= settlement.not_before_seconds <= 375.0


@pytest.mark.parametrize("billed", [Billed.YES, Billed.MAYBE])
def test_an_outage_that_may_cost_money_is_counted(billed):
    """Otherwise holds would pile up without an end."""
    assert settle(1, billed=billed, blames_prompt=False).count_try
    assert settle(8, billed=billed, blames_prompt=False).prompt_state is PromptState.FAILED


def test_the_endpoints_wish_is_kept():
    """Retry-After is the least that a prompt waits."""
    assert settle(1, retry_after_seconds=120.0).not_before_seconds >= 120.0


def test_what_is_known_of_a_refusal_is_written():
    """Message, status, origin and bill reach the ledger."""
    usage = Usage(completion_tokens=3, cost_usd=Decimal("0.1"))
    settlement = settle(1, billed=Billed.YES, usage=usage, generation_id="gen-1", host="H")
    assert (settlement.error, settlement.status) == ("it failed.", 502)
    assert (settlement.generation_id, settlement.host) == ("gen-1", "H")
    assert (settlement.usage, settlement.billed_tokens) == (usage, 3)
    assert settlement.stored is None


def test_a_refusal_without_a_bill_has_an_empty_one():
    """Nothing known is an empty bill, never None and never zeros."""
    assert settle().usage == Usage()


def stored(verdict):
    return StoredSample(
        verdict=verdict,
        prompt_ids=b"",
        output_ids=b"",
        prompt_len=0,
        output_len=0,
        difference=None,
        prompt_difference=None,
        hypothesis="base",
        reason="because.",
        tokenizer_sha256="0",
        body=b"",
    )


@pytest.mark.parametrize("verdict", list(Verdict))
def test_an_answer_is_settled_and_its_verdict_decides(verdict):
    """Proved and truncated answers are done, all others rejected with their reason; all are paid for."""
    usage = Usage(completion_tokens=7, cost_usd=Decimal("0.000000012345"))
    answer = Completion(generation_id="gen-1", model="m", host="H", finish_reason="stop", usage=usage)
    reply = Reply(status=200, body=b"x", seconds=1.0, completion=answer)
    settlement = settling.answered(claim(), reply, answer, stored(verdict))
    done = verdict in USABLE
    assert settlement.outcome is Outcome.SETTLED
    assert settlement.prompt_state is (PromptState.DONE if done else PromptState.REJECTED)
    assert settlement.error == ("" if done else "because.")
    assert settlement.usage.cost_usd == Decimal("0.000000012345")
    assert (settlement.billed_tokens, settlement.count_try) == (7, True)


def test_what_was_not_sent_costs_nothing():
    """The hold is released, the prompt due at once and uncounted."""
    settlement = settling.untouched(claim(), "why.")
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.RELEASED, PromptState.PENDING)
    assert (settlement.count_try, settlement.not_before_seconds, settlement.error) == (False, 0.0, "why.")


def test_a_call_that_was_cut_keeps_its_hold():
    """It may have been billed; the prompt is not to blame."""
    settlement = settling.interrupted(claim(), "stopped.")
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.HELD, PromptState.PENDING)
    assert not settlement.count_try


def test_a_fault_of_ours_fails_the_prompt_and_keeps_the_hold():
    """A bug must not pay for the same prompt again and again."""
    settlement = settling.broken(claim(), "a bug.")
    assert (settlement.outcome, settlement.prompt_state) == (Outcome.HELD, PromptState.FAILED)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"billed": Billed.MAYBE}, Fault.LOST),
        ({"billed": Billed.NO}, None),
        ({"billed": Billed.MAYBE, "defective": True}, Fault.STRUCTURE),
        ({"billed": Billed.MAYBE, "kind": "all_in_reasoning"}, Fault.REASONING),
        ({"decision": Decision.FAIL_PROMPT}, Fault.PERMANENT),
        ({"decision": Decision.PAUSE_KEY}, None),
    ],
)
def test_what_may_be_paid_and_cannot_be_used_is_a_fault_and_an_outage_is_none(fields, fault) -> None:
    assert settle(**fields).fault is fault
