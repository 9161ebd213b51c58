"""The cost of streams in one process: CPU per 1,000 events, and memory, beside the same answers sent plain.

    python -m benchmarks.stream                               500 streams of 1,000 events, 50 events/s each
    python -m benchmarks.stream --streams 50 --events 200

A small server of its own process sends every event by itself, each in its own HTTP chunk, like a host behind
OpenRouter. Only this process, the client, is measured.
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from multiprocessing.connection import Connection

import psutil
import uvloop

from eagle3gen.endpoint import receiving
from eagle3gen.endpoint.assembly import assemble
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.deadlines import Deadlines, Transport
from eagle3gen.endpoint.reply import Reply
from eagle3gen.endpoint.request import CompletionRequest

REQUEST = CompletionRequest(model="m", messages=[{"role": "user", "content": "hi"}], max_tokens=16_384)
SPREAD_SECONDS = 5.0
HEAD = {
    "id": "gen-1777319889-qNPs6PR0SRru1d3CzVF1",
    "object": "chat.completion.chunk",
    "created": 1777319889,
    "model": "moonshotai/kimi-k2.5-0127",
    "provider": "ModelRun",
}


def event(finish: str | None = None, text: str | None = None, **more: object) -> bytes:
    delta: dict[str, object] = {"content": "", "role": "assistant"}
    if text is not None:
        details = [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]
        delta |= {"reasoning": text, "reasoning_details": details}
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "native_finish_reason": finish}
    return b"data: " + json.dumps({**HEAD, "choices": [choice], **more}, separators=(",", ":")).encode() + b"\n\n"


def last_events(events: int) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": events + 3, "cost": 0.0005738}
    answer = event(text=None).replace(b'"content":""', b'"content":" done"')
    return answer + event("stop") + event("stop", usage=usage) + b"data: [DONE]\n\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Answers every POST with the same stream, or with its plain form."""

    def __init__(self, events: int, rate: float) -> None:
        self.events, self.rate = events, rate
        self.token = event(text=" word")
        self.plain = assemble(self.token * events + last_events(events))

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h[:15] == b"content-length:"
                )
                body = await reader.readexactly(length)
                await (self.stream(writer) if b'"stream":true' in body else self.answer(writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def stream(self, writer: asyncio.StreamWriter) -> None:
        kind = b"Content-Type: text/event-stream\r\nX-Generation-Id: gen-1\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + kind + chunked(b": OPENROUTER PROCESSING\n\n"))
        sent, begun, token = 0, time.monotonic(), chunked(self.token)
        while sent < self.events:
            await asyncio.sleep(1 / self.rate)
            due = min(self.events, int((time.monotonic() - begun) * self.rate))
            for _ in range(sent, due):
                writer.write(token)
            sent = due
        writer.write(chunked(last_events(self.events)) + b"0\r\n\r\n")
        await writer.drain()

    async def answer(self, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.events / self.rate)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(self.plain)
        writer.write(head + self.plain)


async def serve(events: int, rate: float, pipe: Connection) -> None:
    server = await asyncio.start_server(Server(events, rate).talk, "127.0.0.1", 0, backlog=4096)
    pipe.send(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(pipe.recv)


def server_process(events: int, rate: float, pipe: Connection) -> None:
    uvloop.run(serve(events, rate, pipe))


def own() -> tuple[float, float]:
    """CPU seconds and resident MB of this process."""
    process = psutil.Process()
    times = process.cpu_times()
    return times.user + times.system, process.memory_info().rss / 2**20


async def watch(peaks: list[float], bursts: list[float]) -> None:
    """The highest memory, and the most CPU in one turn of the loop; what others use is not in it."""
    while True:
        before = time.process_time()
        await asyncio.sleep(0)
        bursts.append(time.process_time() - before)
        await asyncio.sleep(0.05)
        peaks.append(own()[1])


async def measure(port: int, args: argparse.Namespace, transport: Transport) -> tuple[float, float, float, float]:
    """Seconds, CPU seconds, peak MB and the longest turn of the loop in ms of CPU for all answers."""
    endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", None, connections=args.streams)
    deadlines = Deadlines(total=600, first_byte=60, no_progress=60)

    async def call(n: int) -> Reply:
        # Calls of a real run do not begin, and end, in the same moment.
        await asyncio.sleep(SPREAD_SECONDS * n / args.streams)
        return await endpoint.complete(REQUEST, deadlines=deadlines, transport=transport)

    peaks: list[float] = []
    bursts: list[float] = []
    watcher = asyncio.create_task(watch(peaks, bursts))
    cpu, started = own()[0], time.monotonic()
    replies = await asyncio.gather(*(call(n) for n in range(args.streams)))
    seconds, cpu = time.monotonic() - started, own()[0] - cpu
    watcher.cancel()
    whole = " word" * args.events
    wrong = [r for r in replies if r.completion is None or r.completion.reasoning != whole]
    if wrong:
        raise RuntimeError(f"{len(wrong)} answers are not whole: {wrong[0].refusal}")
    await endpoint.close()
    return seconds, cpu, max(peaks), max(bursts) * 1000


async def main(args: argparse.Namespace, pipe: Connection) -> None:
    port = pipe.recv()
    total = args.streams * (args.events + 3)
    print(f"{args.streams:,} calls of {args.events:,} events at {args.rate:g} events/s; at rest {own()[1]:.0f} MB")
    print(f"{'':10}{'seconds':>9}{'CPU s':>8}{'% of a core':>13}{'CPU s/1,000 events':>20}{'RSS MB':>8}{'turn ms':>10}")
    for transport in (Transport.PLAIN, Transport.STREAM):
        seconds, cpu, peak, turn = await measure(port, args, transport)
        share, each = 100 * cpu / seconds, 1000 * cpu / total
        print(f"{transport:10}{seconds:>9.1f}{cpu:>8.2f}{share:>13.0f}{each:>20.4f}{peak:>8.0f}{turn:>10.0f}")
    raw = event(text=" word") * args.events + last_events(args.events)
    cpu = time.process_time()
    for _ in range(20):
        assemble(raw)
    each = (time.process_time() - cpu) / 20 / (args.events + 3) * 1000
    print(f"assembling alone: {each:.4f} CPU s/1,000 events; looked at every {receiving.PACE_SECONDS:g} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--events", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=50.0)
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=server_process, args=(arguments.events, arguments.rate, theirs), daemon=True)
    child.start()
    uvloop.run(main(arguments, ours))
    ours.send(None)
    child.join()
