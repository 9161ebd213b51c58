"""How an attempt ends, as a pure function of what came back. The one place where replies become money and states.

| reply                              | attempt  | prompt                      |
|------------------------------------|----------|-----------------------------|
| an answer, ids stand or truncated  | settled  | done                        |
| an answer whose ids are not proved | settled  | rejected                    |
| refused, certainly not billed      | released | pending later, or failed    |
| refused, billed                    | settled  | pending later, or failed    |
| no word on the bill                | held     | pending later, or failed    |
| an outage or a limit, not billed   | released | pending later, not counted  |
| stopped or shut down in the call   | held     | pending, not counted        |
"""

import random
from dataclasses import replace

from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import Reply
from eagle3gen.endpoint.waiting import backoff_seconds, outage_seconds
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.health import Fault
from eagle3gen.ledger.settlements import Settlement, StoredSample
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Completion, Verdict

TRIES_MAX = 8
"""Counted attempts per prompt; with the backoff they span several minutes."""
PAID_TRIES_MAX = 2
"""A prompt whose answers are paid for and useless is given up sooner."""

_OUTCOMES = {Billed.NO: Outcome.RELEASED, Billed.YES: Outcome.SETTLED, Billed.MAYBE: Outcome.HELD}


def answered(claim: Claim, reply: Reply, completion: Completion, stored: StoredSample, fault: str = "") -> Settlement:
    """The model answered: money is settled, and the verdict says whether the ids may be used.

    `fault` is what is wrong with the structure of the ids (`tokens.structure`): then they are not used, whatever the
    verdict says.
    """
    usable = not fault and (stored.verdict.trainable or stored.verdict is Verdict.TRUNCATED)
    return Settlement(
        claim=claim,
        outcome=Outcome.SETTLED,
        prompt_state=PromptState.DONE if usable else PromptState.REJECTED,
        fault=None if usable else Fault.STRUCTURE if fault else Fault.VERDICT,
        error="" if usable else fault or stored.reason,
        status=reply.status,
        generation_id=completion.generation_id,
        model=completion.model,
        host=completion.host,
        finish_reason=completion.finish_reason,
        usage=completion.usage,
        stored=stored,
    )


def refused(claim: Claim, reply: Reply, refusal: Refusal, rng: random.Random) -> Settlement:
    """No usable answer: the refusal's decision says what becomes of the prompt, `billed` what of the money."""
    settlement = replace(
        untouched(claim, refusal.message),
        outcome=_OUTCOMES[refusal.billed],
        status=reply.status,
        generation_id=refusal.generation_id,
        host=refusal.host,
        usage=refusal.usage,
        fault=_fault(refusal),
    )
    match refusal.decision:
        case Decision.PAUSE_DATASET | Decision.PAUSE_KEY:
            return settlement
        case Decision.FAIL_PROMPT:
            return replace(settlement, prompt_state=PromptState.FAILED, count_try=True)
        case Decision.RETRY if not refusal.blames_prompt and refusal.billed is Billed.NO:
            # An outage meets every prompt, for as long as it lasts. What may cost money is counted all the same.
            return replace(settlement, not_before_seconds=outage_seconds(refusal.retry_after_seconds, rng))
        case Decision.RETRY if claim.tries >= _tries_max(refusal):
            return replace(settlement, prompt_state=PromptState.FAILED, count_try=True)
        case Decision.RETRY:
            wait = backoff_seconds(claim.tries, refusal.retry_after_seconds, rng)
            return replace(settlement, not_before_seconds=wait, count_try=True)


def _fault(refusal: Refusal) -> Fault | None:
    """What the breaker counts. Outages that cost nothing, limits and pauses say nothing about the answers."""
    if refusal.kind == "all_in_reasoning":
        return Fault.REASONING
    if refusal.defective:
        return Fault.STRUCTURE
    if refusal.decision is Decision.FAIL_PROMPT:
        return Fault.PERMANENT
    # Whoever answers every call with half a body must not be paid again and again.
    return Fault.LOST if refusal.billed is Billed.MAYBE else None


def _tries_max(refusal: Refusal) -> int:
    return PAID_TRIES_MAX if refusal.billed is Billed.YES else TRIES_MAX


def untouched(claim: Claim, reason: str) -> Settlement:
    """Nothing was sent: the hold is released and the prompt is due again, uncounted."""
    return Settlement(
        claim=claim, outcome=Outcome.RELEASED, prompt_state=PromptState.PENDING, count_try=False, error=reason
    )


def unaskable(claim: Claim, reason: str) -> Settlement:
    """Nothing was sent, and asking again would change nothing."""
    return replace(untouched(claim, reason), prompt_state=PromptState.FAILED, count_try=True)


def interrupted(claim: Claim, reason: str) -> Settlement:
    """The call was cut: it may have been billed, so its hold stays; the prompt is due again, uncounted."""
    return replace(untouched(claim, reason), outcome=Outcome.HELD)


def broken(claim: Claim, reason: str) -> Settlement:
    """A fault of our own after the call may have been paid."""
    return replace(untouched(claim, reason), outcome=Outcome.HELD, prompt_state=PromptState.FAILED)
