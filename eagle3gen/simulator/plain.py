"""A call that is not streamed: blanks while it is open, then its JSON whole."""

import asyncio
from dataclasses import dataclass, replace

from eagle3gen.simulator import errors, replies, vllm
from eagle3gen.simulator.books import Books
from eagle3gen.simulator.call import Call
from eagle3gen.simulator.errors import Scene
from eagle3gen.simulator.http import PULSE
from eagle3gen.simulator.numbers import dumps

PARTIAL_CHARS = 40
PULSE_SECONDS_MIN = 0.005


@dataclass(slots=True, eq=False)
class PlainCall:
    """One open call."""

    books: Books
    call: Call
    seconds: float
    due: float = 0.0

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.due = loop.time() + self.seconds
        request = self.call.ask.request
        if self.call.ask.dialect != vllm.NAME:
            request.begin()
        if self.call.end == "endless_pulses":
            # Such a host never answers, and so nobody is ever billed.
            self.due = float("inf")
            request.when_gone(lambda: self.books.leave_out(self.call))
        self._wait()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        pulse = max(PULSE_SECONDS_MIN, self.books.options.pulse_seconds)
        if self.due - loop.time() <= pulse:
            loop.call_at(self.due, self._end)
        elif self.call.ask.request.listening or self.due < float("inf"):
            loop.call_later(pulse, self._pulse)

    def _pulse(self) -> None:
        if self.call.ask.dialect != vllm.NAME:
            self.call.ask.request.send(PULSE)
        self._wait()

    def _end(self) -> None:
        """Charge the answer, and send it to whoever still listens: a plain call runs on when its client has gone."""
        if self.books.closed:
            return
        call, request, end = self.call, self.call.ask.request, self.call.end
        if end in errors.INSIDE:
            self.books.leave_out(call)
            scene = Scene(call.host.name, call.model, call.ask.prompt_tokens, call.ask.rng)
            body = errors.inside(end, scene, replies.completion(_partial(call)))
        else:
            self.books.enter(call)
            body = dumps(vllm.completion(call) if call.ask.dialect == vllm.NAME else replies.completion(call))
        if end == "reset":
            request.reset()
            return
        body = {"closed_early": b"", "cut_json": body[: len(body) // 2]}.get(end or "", body)
        if call.ask.dialect == vllm.NAME:
            request.reply(200, body)
        else:
            request.finish(body)


def _partial(call: Call) -> Call:
    """A call of which some text had been made when its host failed."""
    answer = call.answer
    said = (answer.content or "")[:PARTIAL_CHARS]
    begun = replace(answer, ids=answer.ids[:0], billed=0, content=said, calls=[], reasoning_tokens=0)
    return replace(call, faults=frozenset({"no_cost"}), answer=begun)
