"""One short worker beside a bare client: the same simulator, the same calls, in one run.

    make bench            20,000 prompts, 2,000 in flight, 2 s latency
    python -m benchmarks.worker --prompts 4000 --concurrency 500

Simulator, Postgres, Valkey and worker share the machine's cores, so compare the two rows, not machines.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import aiohttp
import httpx
import psutil
from httpx_aiohttp import AiohttpTransport

from eagle3gen.flow.enqueue import Intake, enqueue
from eagle3gen.ledger.connect import open_ledger
from eagle3gen.ledger.migrate import upgrade
from eagle3gen.ledger.reading import totals
from eagle3gen.local.demo import simulator
from eagle3gen.local.services import start_services
from eagle3gen.local.workers import start_workers
from eagle3gen.records import Queue
from eagle3gen.tokens.loading import load_tokenizer

TOKENIZER = "builtin:kimi-mini"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=2_000)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--mean-tokens", type=int, default=600)
    return parser.parse_args()


async def bare_client(url: str, prompts: int, concurrency: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds and MB of the calls alone, in this process."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
    slots = asyncio.Semaphore(concurrency)
    process = psutil.Process()
    async with httpx.AsyncClient(transport=AiohttpTransport(client=session), timeout=None) as http:

        async def call(n: int) -> None:
            async with slots:
                body = {"model": "m", "max_tokens": 10_240, "messages": [{"role": "user", "content": f"Question {n}"}]}
                reply = await http.post(f"{url}/chat/completions", json=body)
                json.loads(reply.content)

        before, started = process.cpu_times(), time.monotonic()
        await asyncio.gather(*(call(n) for n in range(prompts)))
        seconds, after = time.monotonic() - started, process.cpu_times()
    return seconds, after.user + after.system - before.user - before.system, process.memory_info().rss / 2**20


def worker_process(keeper_pid: int) -> psutil.Process:
    """The worker below its keeper."""
    return psutil.Process(keeper_pid).children()[0]


async def worker(url: str, folder: Path, prompts: int, concurrency: int) -> tuple[float, float, float, float]:
    """Seconds from the first answer due, CPU seconds, peak MB of the worker, and CPU seconds of Postgres."""
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"Question {n}"}) + "\n" for n in range(prompts)))
    intake = Intake(
        canary=0,
        files=[file], model="m", endpoint_url=url, tokenizer=TOKENIZER,
        tokenizer_sha256=load_tokenizer(TOKENIZER).sha256, queue=Queue.SHORT,
    )  # fmt: skip
    async with start_services(folder / "state") as services:
        await asyncio.to_thread(upgrade, services.database_url)
        ledger = open_ledger(services.database_url)
        started = time.monotonic()
        await enqueue(ledger, intake, print)
        print(f"enqueue: {prompts / (time.monotonic() - started):,.0f} prompts/s")
        environment = {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url or ""}
        async with start_workers(services, {Queue.SHORT: concurrency}, environment) as workers:
            process, peak, begun, before = None, 0.0, 0.0, 0.0
            while True:
                await asyncio.sleep(0.25)
                async with ledger.begin() as conn:
                    (dataset,) = await totals(conn)
                if process is None and dataset.in_flight:
                    process = worker_process(workers.children[Queue.SHORT].pid or 0)
                    times, begun = process.cpu_times(), time.monotonic()
                    before = times.user + times.system
                if process is not None:
                    peak = max(peak, process.memory_info().rss / 2**20)
                if dataset.done + dataset.rejected + dataset.failed == prompts:
                    break
            if process is None:
                raise RuntimeError("the worker answered before it was seen")
            times, seconds = process.cpu_times(), time.monotonic() - begun
            print(f"verdicts: {dict(dataset.verdicts)}; ledger {dataset.spent_tokens:,} tokens, ${dataset.cost_usd:f}")
            server = psutil.Process(services.postgres.pid or 0).children()[0]
            postgres = sum(sum(p.cpu_times()[:2]) for p in [server, *server.children()])
        await ledger.close()
    return seconds, times.user + times.system - before, peak, postgres


async def main() -> None:
    args = arguments()
    print(f"{args.prompts:,} prompts, {args.concurrency:,} in flight, {args.latency:g} s latency")
    with tempfile.TemporaryDirectory(prefix="eagle3gen-bench-") as name:
        folder = Path(name)
        knobs = {"seed": 1, "latency_seconds": args.latency, "mean_tokens": args.mean_tokens}
        async with simulator(folder / "truth.jsonl", **knobs) as url:
            bare = await bare_client(url, args.prompts, args.concurrency)
            ours = await worker(url, folder, args.prompts, args.concurrency)
    print(f"{'':14}{'answers/s':>10}{'CPU s/1,000':>13}{'RSS MB':>8}")
    for label, (seconds, cpu, rss) in (("bare client", bare), ("worker", ours[:3])):
        print(f"{label:14}{args.prompts / seconds:>10,.0f}{1000 * cpu / args.prompts:>13.2f}{rss:>8,.0f}")
    print(f"Postgres: {1000 * ours[3] / args.prompts:.2f} CPU s/1,000")


if __name__ == "__main__":
    asyncio.run(main())
