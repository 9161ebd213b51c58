"""The server: routes, and the life of one call."""

import asyncio
import hashlib
import math
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

import orjson
import uvloop

from eagle3gen.simulator import replies
from eagle3gen.simulator.asked import read_asked
from eagle3gen.simulator.bill import Bill
from eagle3gen.simulator.http import Connection, Request
from eagle3gen.simulator.options import Host, Options
from eagle3gen.simulator.prompts import PromptCounter
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.simulator.voice import Answer, Voice

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
BACKLOG = 8192
PREFIXES = ("/api/v1", "/v1")
FILES_WANTED = 65_536


class Simulator:
    """One simulated OpenRouter."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.bill = Bill(options.truth)
        vocabulary = Vocabulary(options.tokenizer)
        self._voice = Voice(vocabulary)
        self._counter = PromptCounter(options.tokenizer, vocabulary)
        self._asked: Counter[bytes] = Counter()
        self._ids = random.Random(f"ids {options.seed}")  # noqa: S311  not for secrets
        # Lognormal with the mean that was asked for.
        self._mu = math.log(options.mean_tokens) - options.spread**2 / 2
        self.closed = False
        """Once closed, no call is answered any more: the truth file is complete."""

    def handle(self, request: Request) -> None:
        """Answer one request, now or later."""
        prefix = next((p for p in PREFIXES if request.path.startswith(p + "/")), None)
        path = request.path if prefix is None else request.path.removeprefix(prefix)
        if path == "/_sim/bill":
            request.reply(200, orjson.dumps(self.bill.as_json()))
        elif not self._allowed(request):
            known = "authorization" in request.headers
            request.reply(401, replies.error(401, "User not found." if known else "No auth credentials found"))
        elif (request.method, path) == ("POST", "/chat/completions"):
            self._call(request)
        elif request.method == "GET":
            self._look_up(request, path)
        else:
            request.reply(404, replies.error(404, f"no such path: {request.path}"))

    def _allowed(self, request: Request) -> bool:
        key = self.options.api_key
        return key is None or request.headers.get("authorization") == f"Bearer {key}"

    # A call.

    def _call(self, request: Request) -> None:
        self.bill.begin()
        try:
            asked = read_asked(request.body, self.options.models)
            prompt_tokens = self._counter.count(asked.messages, asked.tools)
        except Exception as error:  # noqa: BLE001  whatever a client sends is its fault, and is answered
            self.bill.fail()
            request.reply(400, replies.error(400, f"invalid request: {error}"))
            return
        digest = hashlib.sha256(request.body).digest()
        self._asked[digest] += 1
        times = self._asked[digest]
        rng = random.Random(f"{self.options.seed} {digest.hex()} {times}")  # noqa: S311  not for secrets
        if rng.random() < self.options.fail_share:
            self._fail(request, rng)
            return
        calls_tools = rng.random() < self.options.tool_share and asked.may_call_tools
        tokens = max(4, int(rng.lognormvariate(self._mu, self.options.spread)))
        answer = self._voice.answer(rng, tokens, asked.limit, asked.tools if calls_tools else (), asked.earlier_calls)
        self._serve(request, rng, asked.model, answer, prompt_tokens, digest, times)

    def _serve(
        self,
        request: Request,
        rng: random.Random,
        model: str,
        answer: Answer,
        prompt_tokens: int,
        digest: bytes,
        times: int,
    ) -> None:
        host = rng.choice(self.options.hosts)
        cost = host.cost(prompt_tokens, len(answer.ids))
        generation_id = self._generation_id()
        body = replies.completion(generation_id, int(time.time()), model, host, answer, prompt_tokens, cost)
        line = {
            "generation_id": generation_id,
            "completion_ids": answer.ids,
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(answer.ids),
            "cost": format(cost.normalize(), "f"),
            "status": 200,
            "finish_reason": answer.finish,
            "host": host.name,
            "body_sha256": digest.hex(),
            "asked": times,
        }
        request.begin(generation_id)
        spread = self.options.latency_spread
        seconds = self.options.latency_seconds * rng.uniform(1 - spread, 1 + spread)
        due = asyncio.get_running_loop().time() + seconds
        self._wait(request, due, lambda: self._charge(request, body, line, cost))

    def _generation_id(self) -> str:
        return f"gen-{int(time.time())}-{''.join(self._ids.choices(ALPHABET, k=20))}"

    def _wait(self, request: Request, due: float, done: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if due - loop.time() <= self.options.pulse_seconds:
            loop.call_at(due, done)
            return

        def pulse() -> None:
            request.pulse()
            self._wait(request, due, done)

        loop.call_later(self.options.pulse_seconds, pulse)

    def _charge(self, request: Request, body: bytes, line: dict[str, Any], cost: Decimal) -> None:
        if self.closed:
            return
        record = {name: value for name, value in line.items() if name != "completion_ids"}
        record |= {"ended": time.time(), "cancelled": not request.listening}
        # A plain call runs on and is billed in full when its client has gone.
        self.bill.disconnected += not request.listening
        self.bill.charge(line, cost, record)
        request.finish(body)

    def _fail(self, request: Request, rng: random.Random) -> None:
        kind = rng.choice(["429", "502", "inside"])
        self.bill.fail()
        generation_id = self._generation_id()
        named = ("X-Generation-Id", generation_id)
        if kind == "429":
            body = replies.error(429, "Provider returned error", provider_name="Chutes", raw="rate limited upstream")
            request.reply(429, body, (("Retry-After", "1"), named))
        elif kind == "502":
            request.reply(502, replies.error(502, "Provider returned error", provider_name="Inceptron"), (named,))
        else:
            request.begin(generation_id)
            request.finish(replies.error(503, "There is no available model provider"))

    # Looking things up.

    def _look_up(self, request: Request, path: str) -> None:
        if path == "/generation":
            self._generation(request)
        elif path == "/models":
            request.reply(200, orjson.dumps({"data": [{"id": "moonshotai/kimi-k2.5", "context_length": 262_144}]}))
        elif path.startswith("/models/") and path.endswith("/endpoints"):
            request.reply(200, orjson.dumps({"data": {"endpoints": [_endpoint(h) for h in self.options.hosts]}}))
        elif path == "/key":
            spent = orjson.Fragment(format(self.bill.cost_usd, "f"))
            data = {"label": "simulated", "limit": None, "limit_remaining": None, "usage": spent, "is_free_tier": False}
            request.reply(200, orjson.dumps({"data": data}))
        elif path == "/credits":
            spent = orjson.Fragment(format(self.bill.cost_usd, "f"))
            request.reply(200, orjson.dumps({"data": {"total_credits": 1_000_000, "total_usage": spent}}))
        else:
            request.reply(404, replies.error(404, f"no such path: {request.path}"))

    def _generation(self, request: Request) -> None:
        generation_id = parse_qs(request.query).get("id", [""])[0]
        record = self.bill.records.get(generation_id)
        if record is None or time.time() - record["ended"] < self.options.generation_delay_seconds:
            request.reply(404, replies.error(404, f"Generation {generation_id} not found"))
            return
        cost = orjson.Fragment(record["cost"])
        data = {
            "id": generation_id,
            "provider_name": record["host"],
            "streamed": False,
            "cancelled": record["cancelled"],
            "finish_reason": record["finish_reason"],
            "native_tokens_prompt": record["prompt_tokens"],
            "native_tokens_completion": record["completion_tokens"],
            "total_cost": cost,
            "usage": cost,
            "is_byok": False,
        }
        request.reply(200, orjson.dumps({"data": data}))


def _endpoint(host: Host) -> dict[str, Any]:
    return {
        "name": f"{host.name} | moonshotai/kimi-k2.5",
        "provider_name": host.name,
        "tag": host.tag,
        "quantization": host.quantization,
        "context_length": 262_144,
        "max_completion_tokens": 65_536,
        "pricing": {
            "prompt": format(host.prompt_usd_per_million / 1_000_000, "f"),
            "completion": format(host.completion_usd_per_million / 1_000_000, "f"),
        },
        "status": 0,
    }


async def serve(options: Options, ready: Callable[[dict[str, Any]], None], ended: asyncio.Event) -> None:
    """Listen on loopback until `ended` is set; what was answered is then in the truth file.

    Raises OSError for a port that is taken and a truth file that cannot be written.
    """
    simulator = Simulator(options)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(simulator.handle), "127.0.0.1", options.port, backlog=BACKLOG)
    try:
        # Not before the port is ours: another simulator there may be writing the same file.
        simulator.bill.open_truth()
        port = server.sockets[0].getsockname()[1]
        ready({"url": f"http://127.0.0.1:{port}/api/v1", "seed": options.seed, "truth": str(options.truth or "")})
        await simulator.bill.keep_truth(ended)
    finally:
        simulator.closed = True
        server.close()


def main(options: Options, ready: Callable[[dict[str, Any]], None], *, until_stdin_closes: bool = False) -> None:
    """Run until SIGTERM, SIGINT, or (when told so) until standard input closes with the parent."""
    _allow_many_connections()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)

        def read_stdin() -> None:
            if not os.read(0, 4096):
                loop.remove_reader(0)
                ended.set()

        if until_stdin_closes:
            loop.add_reader(0, read_stdin)
        await serve(options, ready, ended)

    uvloop.run(run())


def _allow_many_connections() -> None:
    """Raise the soft limit of open files: many systems start with 1,024, half of what one worker opens."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
