"""All that the simulator writes down, and its options of the moment."""

import time
from dataclasses import dataclass, field

from eagle3gen.simulator.account import Account
from eagle3gen.simulator.bill import Bill
from eagle3gen.simulator.call import Call
from eagle3gen.simulator.generation import Generation, Records
from eagle3gen.simulator.limits import Limits
from eagle3gen.simulator.numbers import plain
from eagle3gen.simulator.options import Options
from eagle3gen.simulator.replies import charged
from eagle3gen.simulator.truth import Truth


@dataclass(slots=True)
class Books:
    """Bill, account, records and truth; one entry goes into all of them."""

    options: Options
    truth: Truth
    bill: Bill = field(default_factory=Bill)
    account: Account = field(default_factory=Account)
    records: Records = field(default_factory=Records)
    limits: Limits = field(default_factory=Limits)
    closed: bool = False
    """Once closed, no call is answered any more: the truth file is complete."""

    def leave_out(self, call: Call) -> None:
        """One call that has ended in an unbilled error."""
        self.bill.fail(call.ask.key.label, call.host.name)

    def enter(self, call: Call) -> None:
        """One call that has ended and is charged."""
        generation = _generation(call)
        self.bill.charge(generation)
        self.account.charge(call.ask.key, self.options, generation.cost_usd, generation.byok_usd)
        self.records.add(generation)
        ask, answer = call.ask, call.answer
        self.truth.add(
            {
                "generation_id": generation.id,
                "completion_ids": answer.ids,
                "prompt_tokens": generation.prompt_tokens,
                "completion_tokens": generation.completion_tokens,
                "cost": plain(generation.cost_usd),
                "upstream_cost": plain(generation.upstream_usd),
                "status": 200,
                "finish_reason": answer.finish,
                "host": generation.host,
                "key": generation.key,
                "faults": sorted(call.faults),
                "streamed": generation.streamed,
                "cancelled": generation.cancelled,
                "body_sha256": ask.digest.hex(),
                "asked": ask.times,
            }
        )


def _generation(call: Call) -> Generation:
    ask, answer, price = call.ask, call.answer, call.price
    return Generation(
        id=ask.id,
        key=ask.key.label,
        host=call.host.name,
        model=call.model,
        conversation=ask.conversation,
        begun=ask.begun,
        ended=time.time(),
        streamed=ask.asked.stream,
        cancelled=not ask.request.listening,
        finish=answer.finish,
        prompt_tokens=ask.prompt_tokens,
        cached_tokens=call.cached_tokens,
        completion_tokens=answer.billed,
        emitted_tokens=len(answer.ids),
        reasoning_tokens=answer.reasoning_tokens,
        cost_usd=charged(call, price.total),
        upstream_usd=price.total,
        discount_usd=price.discount,
        is_byok=call.charged_share is not None,
        hidden="no_record" in call.faults,
        shy="record_429" in call.faults,
    )
