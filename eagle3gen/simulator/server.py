"""The server: routes, and the process around them."""

import asyncio
import os
import resource
import signal
from collections.abc import Callable
from typing import Any

import uvloop

from eagle3gen.simulator import vllm
from eagle3gen.simulator.answering import Answering
from eagle3gen.simulator.books import Books
from eagle3gen.simulator.control import control
from eagle3gen.simulator.door import Door
from eagle3gen.simulator.http import Request
from eagle3gen.simulator.lookups import MODELS, look_up
from eagle3gen.simulator.numbers import dumps
from eagle3gen.simulator.options import Options
from eagle3gen.simulator.prompts import PromptCounter
from eagle3gen.simulator.refusals import Refused
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.simulator.truth import Truth
from eagle3gen.simulator.voice import Voice

PREFIXES = ("/api/v1", "/v1")
OWN = ("/simulator", "/_sim")
"""Where the simulator's own addresses are; they need no key."""
FILES_WANTED = 65_536


class Simulator:
    """One simulated OpenRouter."""

    def __init__(self, options: Options) -> None:
        self.books = Books(options, Truth(options.truth))
        self.door = Door(self.handle)
        vocabulary = Vocabulary(options.tokenizer)
        counter = PromptCounter(options.tokenizer, vocabulary)
        self._answering = Answering(self.books, Voice(vocabulary), counter, self.door.shut)

    def handle(self, request: Request) -> None:
        """Answer one request, now or later."""
        try:
            if (own := _below(request.path, OWN)) is not None:
                request.reply(200, dumps(control(self.books, request.method, own, request.body)))
            elif (failure := self.books.limits.at_edge(self.books.options)) is not None:
                self.books.bill.edge += 1
                request.reply(failure.status, failure.body, failure.headers)
            else:
                self._serve(request, self._secret(request))
        except Refused as refused:
            request.reply(refused.code, refused.body, refused.headers)

    def _serve(self, request: Request, secret: str) -> None:
        """Answer a request of a client."""
        path, vllm_like = _below(request.path, PREFIXES), self.books.options.dialect == vllm.NAME
        if (request.method, path) == ("POST", "/chat/completions"):
            self._answering.take(request, secret)
        elif vllm_like and (request.method, path) == ("GET", "/models"):
            longest = max(host.context_length for host in self.books.options.hosts)
            request.reply(200, dumps(vllm.models(self.books.options.models or MODELS, longest)))
        elif request.method == "GET" and path is not None and not vllm_like:
            key = self.books.account.key(secret)
            request.reply(200, dumps(look_up(self.books, path, request.query, key)))
        else:
            raise Refused(404, f"no such path: {request.path}")

    def _secret(self, request: Request) -> str:
        """The key of a request. Raises Refused (401)."""
        told, wanted = request.headers.get("authorization"), self.books.options.api_key
        if wanted is not None and told != f"Bearer {wanted}":
            raise Refused(401, "No auth credentials found" if told is None else "User not found.")
        return (told or "").removeprefix("Bearer ")


def _below(path: str, prefixes: tuple[str, ...]) -> str | None:
    """What follows one of the prefixes."""
    return next((path.removeprefix(p) for p in prefixes if path.startswith(p + "/")), None)


async def serve(options: Options, ready: Callable[[dict[str, Any]], None], ended: asyncio.Event) -> None:
    """Listen on loopback until `ended` is set; what was answered is then in the truth file.

    Raises OSError for a port that is taken and a truth file that cannot be written.
    """
    simulator = Simulator(options)
    await simulator.door.open(options.port)
    try:
        # Not before the port is ours: another simulator there may be writing the same file.
        simulator.books.truth.open()
        url = f"http://127.0.0.1:{simulator.door.port}/api/v1"
        ready({"url": url, "seed": options.seed, "truth": str(options.truth or "")})
        await simulator.books.truth.keep(ended)
    finally:
        simulator.books.closed = True
        simulator.door.close()


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
