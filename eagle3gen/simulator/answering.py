"""The life of one call: read, routed, paid for, answered."""

import asyncio
import hashlib
import math
import random
import time
from collections import Counter
from collections.abc import Callable

import orjson

from eagle3gen.simulator import defects, faults, replies
from eagle3gen.simulator.asked import read_asked
from eagle3gen.simulator.books import Books
from eagle3gen.simulator.call import Ask, Call
from eagle3gen.simulator.host import Host
from eagle3gen.simulator.http import Request
from eagle3gen.simulator.prompts import PromptCounter
from eagle3gen.simulator.refusals import BadRequest, Refused, error
from eagle3gen.simulator.routing import candidates, in_turn
from eagle3gen.simulator.voice import Answer, Voice

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
CACHED_PART = (0.3, 0.95)
"""How much of a prompt is in the cache when some of it is."""


class Answering:
    """Answers calls, and writes them into the books."""

    def __init__(self, books: Books, voice: Voice, counter: PromptCounter) -> None:
        self._books = books
        self._voice = voice
        self._counter = counter
        self._asked: Counter[bytes] = Counter()
        self._ids = random.Random(f"ids {books.options.seed}")  # noqa: S311  not for secrets

    def take(self, request: Request, secret: str) -> None:
        """Answer one call, now or later."""
        books = self._books
        key = books.account.key(secret)
        books.bill.begin(key.label)
        request.generation_id = self._generation_id()
        try:
            asked = read_asked(request.body, books.options.models)
            prompt_tokens = self._count(asked.messages, asked.tools)
            hosts = candidates(books.options.hosts, asked)
            books.account.check(key, books.options, hosts, prompt_tokens, asked.limit)
        except Refused as refused:
            books.bill.fail(key.label)
            request.reply(refused.code, refused.body, refused.headers)
            return
        digest = hashlib.sha256(request.body).digest()
        self._asked[digest] += 1
        times = self._asked[digest]
        rng = random.Random(f"{books.options.seed} {digest.hex()} {times}")  # noqa: S311  not for secrets
        conversation = hashlib.sha256(orjson.dumps([asked.messages, asked.tools])).digest()
        ask = Ask(
            request, key, request.generation_id, time.time(), asked, prompt_tokens, digest, conversation, times, rng
        )
        if rng.random() < books.options.fail_share:
            self._fail(ask)
            return
        self._serve(ask, in_turn(hosts, asked.wishes, rng)[0])

    def _count(self, messages: list[dict[str, object]], tools: list[dict[str, object]]) -> int:
        try:
            return self._counter.count(messages, tools)
        except Exception as fault:  # whatever a client sends is its fault, and is answered
            raise BadRequest(f"invalid request: {fault}") from fault

    def _generation_id(self) -> str:
        return f"gen-{int(time.time())}-{''.join(self._ids.choices(ALPHABET, k=20))}"

    def _serve(self, ask: Ask, host: Host) -> None:
        options, rng = self._books.options, ask.rng
        self._books.bill.send(host.name)
        met = faults.met(options.fault, host.name, rng)
        cached = 0
        if rng.random() < options.cached_share:
            cached = int(ask.prompt_tokens * rng.uniform(*CACHED_PART))
        fee = options.byok_fee if options.byok else None
        call = Call(ask, host, met, self._answer(ask, host, met), cached, fee)
        ask.request.begin()
        seconds = options.latency_seconds * rng.uniform(1 - options.latency_spread, 1 + options.latency_spread)
        self._wait(ask.request, asyncio.get_running_loop().time() + seconds, lambda: self._end(call))

    def _answer(self, ask: Ask, host: Host, met: frozenset[str]) -> Answer:
        options, rng, asked = self._books.options, ask.rng, ask.asked
        # Lognormal with the mean that was asked for.
        mu = math.log(options.mean_tokens) - options.spread**2 / 2
        calls_tools = rng.random() < options.tool_share and asked.may_call_tools
        tokens = max(4, int(rng.lognormvariate(mu, options.spread)))
        limit = min(asked.limit, host.max_completion_tokens)
        tools = asked.tools if calls_tools else ()
        answer = self._voice.answer(rng, tokens, limit, tools, asked.earlier_calls, met)
        return defects.shown(answer, met, rng, self._voice)

    def _wait(self, request: Request, due: float, done: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if due - loop.time() <= self._books.options.pulse_seconds:
            loop.call_at(due, done)
            return

        def pulse() -> None:
            request.pulse()
            self._wait(request, due, done)

        loop.call_later(self._books.options.pulse_seconds, pulse)

    def _end(self, call: Call) -> None:
        """Charge an answer, and send it to whoever still listens."""
        if self._books.closed:
            return
        # A plain call runs on and is billed in full when its client has gone.
        self._books.enter(call)
        call.ask.request.finish(replies.completion(call))

    def _fail(self, ask: Ask) -> None:
        kind = ask.rng.choice(["429", "502", "inside"])
        self._books.bill.fail(ask.key.label)
        if kind == "429":
            body = error(429, "Provider returned error", provider_name="Chutes", raw="rate limited upstream")
            ask.request.reply(429, body, {"Retry-After": "1"})
        elif kind == "502":
            ask.request.reply(502, error(502, "Provider returned error", provider_name="Inceptron"))
        else:
            ask.request.begin()
            ask.request.finish(error(503, "There is no available model provider"))
