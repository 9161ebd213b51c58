"""The preflight: everything that a run needs, looked at before anything is spent. One finding per check, none stops."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from eagle3gen.endpoint.account import read_account
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.prices import allows, dearest, listed_hosts, listing_path
from eagle3gen.endpoint.routing import Routing
from eagle3gen.endpoint.sampling import check_sampling
from eagle3gen.errors import Eagle3genError
from eagle3gen.records import Json

CLOCK_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw. `ok` None: it does not apply, or could not be looked at."""

    check: str
    ok: bool | None
    says: str


def good(check: str, says: str) -> Finding:
    return Finding(check, ok=True, says=says)


def bad(check: str, says: str) -> Finding:
    return Finding(check, ok=False, says=says)


def unknown(check: str, says: str) -> Finding:
    return Finding(check, ok=None, says=says)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """What is to be examined."""

    endpoint: Endpoint
    model: str
    routing: Routing
    sampling: Json
    tokenizer: Callable[[], str]
    """Load and probe it; what it is. Raises TokenizerRefused."""
    ledger: Callable[[], Awaitable[str]] | None
    broker: Callable[[], Awaitable[str]] | None
    files_needed: int
    files_allowed: Callable[[], int]


async def examine(patient: Patient) -> list[Finding]:
    """Every check, in the order in which a run would meet what it looks at."""
    findings = [await _said("tokenizer", asyncio.to_thread(patient.tokenizer)), _files(patient)]
    for name, ask in (("database", patient.ledger), ("broker", patient.broker)):
        findings.append(await _said(name, ask()) if ask else unknown(name, "none is named"))
    findings += [_sampling(patient), await _endpoint(patient), await _key(patient)]
    return [*findings, *await _hosts(patient)]


async def _said(check: str, asked: Awaitable[str]) -> Finding:
    try:
        return good(check, await asked)
    except Eagle3genError as error:
        return bad(check, str(error))


def _files(patient: Patient) -> Finding:
    allowed = patient.files_allowed()
    says = f"{allowed:,} files may be open, {patient.files_needed:,} are needed"
    return Finding("open files", allowed >= patient.files_needed, says)


def _sampling(patient: Patient) -> Finding:
    try:
        check_sampling(patient.sampling)
    except Eagle3genError as error:
        return bad("sampling", str(error))
    temperature, top_p = patient.sampling.get("temperature"), patient.sampling.get("top_p")
    if "kimi" in patient.model and (temperature not in {None, 1, 0.6} or top_p not in {None, 0.95}):
        # https://platform.moonshot.ai: the maker's own endpoint takes no other values.
        return bad("sampling", "Moonshot's own host takes only temperature 1 (0.6 without thinking), top_p 0.95")
    return good("sampling", ", ".join(f"{k}={v}" for k, v in patient.sampling.items()) or "the host's own")


async def _endpoint(patient: Patient) -> Finding:
    try:
        date = await patient.endpoint.ping()
    except Eagle3genError as error:
        return bad("endpoint", str(error))
    off = 0.0 if date is None else abs(parsedate_to_datetime(date).timestamp() - time.time())
    if off > CLOCK_SECONDS_MAX:
        return bad("endpoint", f"its clock and this machine's differ by {off:,.0f} s; set the clock")
    return good("endpoint", f"{patient.endpoint.base_url} answers")


async def _key(patient: Patient) -> Finding:
    try:
        status, _ = await patient.endpoint.get("/key")
        account = await read_account(patient.endpoint)
    except Eagle3genError as error:
        return bad("key", str(error))
    if status in {401, 403}:
        return bad("key", f"the endpoint refuses the key ({status}); set OPENROUTER_API_KEY anew")
    if account is None:
        return unknown("key", "the endpoint keeps no account")
    if account.left is None:
        return good("key", f"${account.usage:,.2f} used, no limit known")
    return Finding("key", account.left > 0, f"${account.left:,.2f} left, ${account.usage:,.2f} used")


async def _hosts(patient: Patient) -> list[Finding]:
    slug = patient.model
    try:
        status, listing = await patient.endpoint.get(listing_path(slug))
    except Eagle3genError as error:
        return [bad("hosts", str(error))]
    hosts = listed_hosts(listing)
    if status == 404 or (status == 200 and not hosts):
        return [Finding("hosts", None if status == 404 else False, f"{patient.endpoint.base_url} lists no {slug}")]
    if status != 200:
        return [unknown("hosts", f"the endpoint answers {status} to the question who serves {slug}")]
    allowed = [host for host in hosts if allows(patient.routing, host)]
    found = [Finding("hosts", bool(allowed), f"{len(allowed)} of {len(hosts)} hosts of {slug} match the routing")]
    found += [Finding("host", True if host in allowed else None, _host(host, host in allowed)) for host in hosts]
    if allowed and (prices := dearest(listing, patient.routing)) is not None:
        per_million = (
            f"${prices.prompt_usd * 10**6:.2f} in, ${prices.completion_usd * 10**6:.2f} out per million tokens"
        )
        found.append(good("prices", f"at most {per_million}"))
    return found


def _host(host: Json, matches: bool) -> str:
    pricing = host.get("pricing")
    pricing = pricing if isinstance(pricing, dict) else {}
    parts = [
        str(host.get("tag")),
        str(host.get("quantization")),
        f"context {host.get('context_length')}",
        f"prices {pricing.get('prompt')} in, {pricing.get('completion')} out",
    ]
    return ", ".join(parts) + ("" if matches else ": ruled out by the routing")
