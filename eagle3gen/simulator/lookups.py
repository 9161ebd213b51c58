"""What a client may look up: models, hosts, its key, the credits, a generation."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs

from eagle3gen.simulator.account import Key
from eagle3gen.simulator.books import Books
from eagle3gen.simulator.generation import as_record
from eagle3gen.simulator.host import MILLION, Host
from eagle3gen.simulator.refusals import Refused

MODELS = ("moonshotai/kimi-k2.5",)
ENDLESS = Decimal(1_000_000)
"""What an account without end says that it has."""


def look_up(books: Books, path: str, query: str, key: Key) -> Mapping[str, Any]:
    """The JSON at a path below the prefix. Raises Refused (403, 404, 429)."""
    if path == "/generation":
        generation_id = parse_qs(query).get("id", [""])[0]
        return {"data": as_record(books.records.find(generation_id, books.options.generation_delay_seconds))}
    if path == "/models":
        return {"data": [_model(name, books.options.hosts) for name in books.options.models or MODELS]}
    if path.startswith("/models/") and path.endswith("/endpoints"):
        return _endpoints(books, path.removeprefix("/models/").removesuffix("/endpoints"))
    if path == "/key":
        return {"data": _key(books, key)}
    if path == "/credits":
        if not books.options.management_key:
            raise Refused(403, "Only management keys can perform this operation")
        paid_in = books.account.credits(books.options)
        return {"data": {"total_credits": ENDLESS if paid_in is None else paid_in, "total_usage": books.account.used}}
    raise Refused(404, f"no such path: {path}")


def _key(books: Books, key: Key) -> dict[str, Any]:
    today = dt.datetime.now(dt.UTC).date()
    options = books.options
    return {
        "label": key.label,
        "limit": options.key_limit,
        "limit_remaining": books.account.limit_left(key, options),
        "limit_reset": "daily" if options.key_limit is not None and options.key_limit_reset_seconds else None,
        "include_byok_in_limit": False,
        "usage": key.usage,
        "usage_daily": key.since(today),
        "usage_weekly": key.since(today - dt.timedelta(days=today.weekday())),
        "usage_monthly": key.since(today.replace(day=1)),
        "byok_usage": key.byok,
        "is_free_tier": False,
        "is_management_key": options.management_key,
        "expires_at": None,
        "rate_limit": {"requests": -1, "interval": "10s", "note": "This field is deprecated and safe to ignore."},
    }


def _endpoints(books: Books, model: str) -> Mapping[str, Any]:
    if model not in (books.options.models or (model,)):
        raise Refused(404, "Model not found")
    return {"data": {"id": model, "name": model, "endpoints": [_endpoint(h, model) for h in books.options.hosts]}}


def _endpoint(host: Host, model: str) -> dict[str, Any]:
    return {
        "name": f"{host.name} | {model}",
        "model_id": model,
        "provider_name": host.name,
        "tag": host.tag,
        "quantization": host.quantization,
        "context_length": host.context_length,
        "max_completion_tokens": host.max_completion_tokens,
        "max_prompt_tokens": None,
        "pricing": _pricing(host),
        "supported_parameters": host.parameters,
        "status": 0,
        "uptime_last_5m": 100,
        "uptime_last_30m": 99.9,
        "uptime_last_1d": 99.7,
        "supports_implicit_caching": host.cached_usd_per_million is not None,
    }


def _pricing(host: Host) -> dict[str, Any]:
    """USD per token, as text."""
    pricing = {
        "prompt": host.prompt_usd_per_million,
        "completion": host.completion_usd_per_million,
        "request": Decimal(0),
    }
    if host.cached_usd_per_million is not None:
        pricing["input_cache_read"] = host.cached_usd_per_million
    return {name: format((usd / MILLION).normalize(), "f") for name, usd in pricing.items()} | {"discount": 0}


def _model(name: str, hosts: tuple[Host, ...]) -> dict[str, Any]:
    cheapest = min(hosts, key=lambda host: host.completion_usd_per_million)
    longest = max(host.max_completion_tokens for host in hosts)
    context = max(host.context_length for host in hosts)
    return {
        "id": name,
        "canonical_slug": f"{name}-0127",
        "name": name,
        "context_length": context,
        "pricing": _pricing(cheapest),
        "top_provider": {"context_length": context, "max_completion_tokens": longest, "is_moderated": False},
        "per_request_limits": None,
        "supported_parameters": sorted({name for host in hosts for name in host.parameters}),
        "default_parameters": {"temperature": None, "top_p": None},
        "expiration_date": None,
    }
