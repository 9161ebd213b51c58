"""The life of one call: let in, read, routed, paid for, and given to what answers it."""

import hashlib
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from eagle3gen.simulator import defects, faults, vllm
from eagle3gen.simulator.asked import read_asked
from eagle3gen.simulator.books import Books
from eagle3gen.simulator.call import Ask, Call
from eagle3gen.simulator.errors import STATUS, Failure, Scene
from eagle3gen.simulator.host import Host
from eagle3gen.simulator.http import Request
from eagle3gen.simulator.plain import PlainCall
from eagle3gen.simulator.prompts import PromptCounter
from eagle3gen.simulator.refusals import BadRequest, Refused
from eagle3gen.simulator.routing import candidates, in_turn
from eagle3gen.simulator.stream import StreamedCall
from eagle3gen.simulator.voice import Answer, Voice

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
CACHED_PART = (0.3, 0.95)
"""How much of a prompt is in the cache when some of it is."""
CUT_PART = (0.2, 0.8)
"""Where a host stops that stops too early."""
FAILURES = ("status_429_text", "status_502", "inside_error")
"""What `--fail-share` draws from."""


class Answering:
    """Lets calls in, and has them answered."""

    def __init__(self, books: Books, voice: Voice, counter: PromptCounter, refuse_all: Callable[[float], None]) -> None:
        self._books = books
        self._voice = voice
        self._counter = counter
        self._refuse_all = refuse_all
        """Refuses connections for so many seconds."""
        self._asked: Counter[bytes] = Counter()
        self._ids = random.Random(f"ids {books.options.seed}")  # noqa: S311  not for secrets

    def take(self, request: Request, secret: str) -> None:
        """Answer one call, now or later."""
        books = self._books
        key = books.account.key(secret)
        books.bill.begin(key.label)
        request.generation_id = self._generation_id()
        if (failure := books.limits.for_key(books.options, key.label)) is not None:
            self._turn_away(request, key.label, failure)
            return
        try:
            asked = read_asked(request.body, books.options.models)
            prompt_ids = self._prompt_ids(asked.messages, asked.tools)
            hosts = candidates(books.options.hosts, asked, len(prompt_ids))
            books.account.check(key, books.options, hosts, len(prompt_ids), asked.limit)
        except Refused as refused:
            self._turn_away(request, key.label, Failure(refused.code, refused.body, refused.headers))
            return
        digest = hashlib.sha256(request.body).digest()
        self._asked[digest] += 1
        times = self._asked[digest]
        ask = Ask(
            request=request,
            key=key,
            id=request.generation_id,
            begun=time.time(),
            asked=asked,
            prompt_tokens=len(prompt_ids),
            digest=digest,
            conversation=hashlib.sha256(orjson.dumps([asked.messages, asked.tools])).digest(),
            times=times,
            rng=random.Random(f"{books.options.seed} {digest.hex()} {times}"),  # noqa: S311  not for secrets
            dialect=books.options.dialect,
            prompt_ids=prompt_ids if asked.wants_ids else None,
        )
        self._route(ask, in_turn(hosts, asked.wishes, ask.rng))

    def _prompt_ids(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> list[int]:
        try:
            return self._counter.ids(messages, tools)
        except Exception as fault:  # whatever a client sends is its fault, and is answered
            raise BadRequest(f"invalid request: {fault}") from fault

    def _generation_id(self) -> str:
        return f"gen-{int(time.time())}-{''.join(self._ids.choices(ALPHABET, k=20))}"

    def _turn_away(self, request: Request, key: str, failure: Failure, host: str | None = None) -> None:
        """End a call by an unbilled error."""
        self._books.bill.fail(key, host)
        if self._books.options.dialect == vllm.NAME:
            failure = vllm.failure(failure)
        request.reply(failure.status, failure.body, failure.headers)

    def _route(self, ask: Ask, hosts: list[Host]) -> None:
        """Give a call to the first host that takes it, and let it meet its faults there."""
        books, label = self._books, ask.key.label
        found = books.limits.first_free(books.options, hosts, fallbacks=ask.asked.wishes.allow_fallbacks)
        if isinstance(found, Failure):
            self._turn_away(ask.request, label, found)
            return
        full = books.limits.in_pool(books.options, found, books.bill.total.open - 1)
        if full is not None:
            self._turn_away(ask.request, label, full)
            return
        books.bill.send(found.name)
        met = self._met(ask, found)
        end = next((name for name in met if name in STATUS), None)
        if end is not None:
            scene = Scene(found.name, ask.asked.model, ask.prompt_tokens, ask.rng)
            self._turn_away(ask.request, label, STATUS[end](scene), found.name)
        elif "outage" in met:
            books.bill.fail(label, found.name)
            ask.request.reset()
            self._refuse_all(books.options.outage_seconds)
        else:
            self._serve(ask, found, met)

    def _met(self, ask: Ask, host: Host) -> frozenset[str]:
        options, rng = self._books.options, ask.rng
        if rng.random() < options.fail_share:
            return frozenset({rng.choice(FAILURES)})
        met = faults.met(options.faults, options.fault_share, options.fault, host.name, rng)
        return defects.possible(met, ask.asked)

    def _serve(self, ask: Ask, host: Host, met: frozenset[str]) -> None:
        options, rng = self._books.options, ask.rng
        cached = 0
        if rng.random() < options.cached_share:
            cached = int(ask.prompt_tokens * rng.uniform(*CACHED_PART))
        fee = options.byok_fee if options.byok else None
        call = Call(ask, host, met, self._answer(ask, host, met), cached, fee)
        seconds = options.latency_seconds * rng.uniform(1 - options.latency_spread, 1 + options.latency_spread)
        if ask.asked.stream:
            StreamedCall(self._books, call, seconds, self._voice).start()
        else:
            PlainCall(self._books, call, seconds).start()

    def _answer(self, ask: Ask, host: Host, met: frozenset[str]) -> Answer:
        options, rng, asked = self._books.options, ask.rng, ask.asked
        # Lognormal with the mean that was asked for.
        mu = math.log(options.mean_tokens) - options.spread**2 / 2
        wants_tools = rng.random() < options.tool_share or bool(met & defects.NEED_CALLS)
        tokens = max(4, int(rng.lognormvariate(mu, options.spread)))
        limit = min(asked.limit, host.max_completion_tokens)
        if "cut_short" in met:
            limit = max(1, min(limit, int(tokens * rng.uniform(*CUT_PART))))
        tools = asked.tools if wants_tools and asked.may_call_tools else ()
        answer = self._voice.answer(rng, tokens, limit, tools, asked.earlier_calls, met)
        return defects.shown(answer, met, rng, self._voice)
