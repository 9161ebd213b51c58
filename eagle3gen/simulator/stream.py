"""A call that is streamed: server-sent events, as OpenRouter or vLLM writes them."""

import asyncio
from dataclasses import replace

from eagle3gen.simulator import errors, vllm
from eagle3gen.simulator.books import Books
from eagle3gen.simulator.call import Call
from eagle3gen.simulator.events import deltas
from eagle3gen.simulator.voice import Voice
from eagle3gen.simulator.writers import OpenRouterWriter, VllmWriter, Writer

HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
SILENT_PART = 0.2
"""How much of its time a stream has nothing but comments."""
PULSE_SECONDS_MIN = 0.005
STEP_SECONDS = 0.04
"""Events that are due within it go out in one write: a write costs ten times what an event does."""
COMMENT_SHARE = 0.02
CUT_BYTES = 100
"""Where an event ends that is cut: inside of its JSON."""
SPLIT_SHARE = 0.3
"""How many of the writes with a character of several bytes are cut inside of it."""


class StreamedCall:
    """One open stream."""

    def __init__(self, books: Books, call: Call, seconds: float, voice: Voice) -> None:
        self._books = books
        self._call = call
        self._request = call.ask.request
        self._deltas = deltas(call.answer, voice, books.options.tokens_per_event)
        self._first = asyncio.get_running_loop().time() + seconds * SILENT_PART
        """When the first delta is due."""
        self._pace = seconds * (1 - SILENT_PART) / max(1, len(self._deltas))
        """Seconds between two deltas."""
        self._writer: Writer = VllmWriter(call) if call.ask.dialect == vllm.NAME else OpenRouterWriter(call)
        self._last = len(self._deltas) if call.end is None else len(self._deltas) // 2
        """How many deltas come before the stream ends or breaks."""
        self._sent = 0
        self._ended = False

    def start(self) -> None:
        self._request.begin(self._writer.first, HEADERS)
        self._request.when_gone(self._gone)
        self._comment()

    @property
    def _over(self) -> bool:
        return self._ended or self._books.closed

    def _due(self, number: int) -> float:
        """When so many deltas must have been sent."""
        return self._first + self._pace * number

    def _comment(self) -> None:
        """Comments until the first event; for ever where a host is stuck."""
        if self._over:
            return
        loop, endless = asyncio.get_running_loop(), self._call.end == "endless_pulses"
        pulse = max(PULSE_SECONDS_MIN, self._books.options.pulse_seconds)
        if not endless and self._due(0) - loop.time() <= pulse:
            loop.call_at(self._due(0), self._step)
            return
        if self._writer.comment:
            self._request.send(self._writer.comment)
        loop.call_later(pulse, self._comment)

    def _step(self) -> None:
        """Send what is due, and come back for the next."""
        if self._over:
            return
        loop = asyncio.get_running_loop()
        now, first = loop.time(), self._sent
        due = int((now - self._first) / self._pace) + 1 if self._pace else self._last
        self._sent = max(first, min(due, self._last))
        if self._request.listening and self._sent > first:
            self._send(list(map(self._writer.delta, self._deltas[first : self._sent])))
        if self._sent < self._last:
            loop.call_at(max(self._due(self._sent), now + STEP_SECONDS), self._step)
        else:
            loop.call_at(max(self._due(self._sent), now), self._end)

    def _send(self, frames: list[bytes]) -> None:
        draw = self._call.ask.rng.random
        if draw() < COMMENT_SHARE:
            frames.insert(0, self._writer.comment)
        data = b"".join(frames)
        split = not data.isascii() and draw() < SPLIT_SHARE
        (self._request.send_split if split else self._request.send)(data)

    def _end(self) -> None:
        if self._over:
            return
        end = self._call.end
        self._ended = True
        self._request.when_gone(None)
        if end in errors.INSIDE:
            self._books.leave_out(self._call)
            self._request.finish(self._writer.failed())
            return
        self._books.enter(self._call)
        if end == "reset":
            self._request.reset()
        elif end == "cut_json":
            rest = b"".join(map(self._writer.delta, self._deltas[self._last :])) or self._writer.end()
            self._request.finish(rest[:CUT_BYTES])
        else:
            self._request.finish(b"" if end == "closed_early" else self._writer.end())

    def _gone(self) -> None:
        """The client has gone: most hosts stop there and bill what was sent."""
        if self._over:
            return
        if self._call.end == "endless_pulses":
            self._ended = True
            self._books.leave_out(self._call)
        elif self._call.host.cancels:
            self._ended = True
            self._books.enter(_so_far(self._call, self._deltas[self._sent - 1].upto if self._sent else 0))


def _so_far(call: Call, tokens: int) -> Call:
    """The call as it was when its host stopped."""
    answer = call.answer
    thought = min(tokens, answer.reasoning_tokens)
    cut = replace(answer, ids=answer.ids[:tokens], billed=tokens, finish=None, reasoning_tokens=thought)
    return replace(call, answer=cut)
