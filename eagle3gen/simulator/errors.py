"""Errors as OpenRouter and its edge write them, in both dialects.

The older dialect has `provider_name` and `raw` in its metadata, the documented one `error_type` and `provider_code`.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3gen.simulator.numbers import dumps
from eagle3gen.simulator.refusals import error

HTML = "text/html; charset=UTF-8"
TEXT = "text/plain; charset=UTF-8"
WRAPPED = "Provider returned error"
EDGE_LIMIT = b"error code: 1015"


@dataclass(frozen=True, slots=True)
class Failure:
    """One error as it goes over the wire."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scene:
    """Where an error happens."""

    host: str
    model: str
    prompt_tokens: int
    rng: random.Random

    @property
    def typed(self) -> bool:
        """Whether this error is written in the documented dialect."""
        return self.rng.random() < 0.5


def _host_error(status: int, error_type: str, raw: Any, **headers: str) -> Callable[[Scene], Failure]:
    """An error of a host, passed on."""

    def make(scene: Scene) -> Failure:
        if scene.typed:
            metadata = {"error_type": error_type, "provider_code": str(status), "provider_name": scene.host}
        else:
            metadata = {"provider_name": scene.host, "raw": raw}
        return Failure(status, error(status, WRAPPED, **metadata), _dashed(headers))

    return make


def _own_error(status: int, message: str, error_type: str, **headers: str) -> Callable[[Scene], Failure]:
    """An error of OpenRouter itself."""

    def make(scene: Scene) -> Failure:
        metadata = {"error_type": error_type} if scene.typed else {}
        return Failure(status, error(status, message, **metadata), _dashed(headers))

    return make


def _dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _page(status: int, title: str) -> Callable[[Scene], Failure]:
    head = f"<!DOCTYPE html>\n<html><head><title>openrouter.ai | {title}</title></head>"
    body = f"{head}<body><h1>{title}</h1></body></html>"
    return lambda _: Failure(status, body.encode(), {"Content-Type": HTML})


def _availability(status: int, message: str, code: str, *, retryable: bool) -> Callable[[Scene], Failure]:
    """The shape of mid-2026: no `code`, but an object that says whether a retry helps."""

    def make(scene: Scene) -> Failure:
        availability = {
            "code": code,
            "retryable": retryable,
            "retry_after": 1 if retryable else None,
            "requested_models": [scene.model],
            "affected_providers": [scene.host],
            "docs_url": "https://openrouter.ai/docs/api-reference/errors",
        }
        inside = {"message": message, "http_status": status, "error_type": code, "availability": availability}
        return Failure(status, dumps({"error": inside}))

    return make


def _context(scene: Scene) -> Failure:
    longest = 262_144
    message = (
        f"This endpoint's maximum context length is {longest} tokens. However, you requested about "
        f"{longest + scene.prompt_tokens} tokens ({scene.prompt_tokens} of text input, {longest} in the output). "
        "Please reduce the length of either one."
    )
    metadata = {"error_type": "context_length_exceeded"} if scene.typed else {"provider_name": None}
    return Failure(400, error(400, message, **metadata))


def _moderation(scene: Scene) -> Failure:
    flagged_for = 'Your input was flagged for "misc". No credits were charged.'
    message = f"{scene.model} requires moderation on {scene.host}. {flagged_for}"
    flagged = {"reasons": ["misc"], "flagged_input": "the beginning...and the end"}
    return Failure(403, error(403, message, **flagged, provider_name=scene.host, model_slug=scene.model))


def _limited_object(scene: Scene) -> Failure:
    raw = {"error": {"message": "Rate limit reached", "type": "rate_limit_error", "code": "429"}}
    metadata = {
        "provider_name": scene.host,
        "raw": raw,
        "is_byok": False,
        "provider_error_code": "rate_limit_error",
        "limit_source": "upstream_provider_shared_pool",
        "remedy_hint": "retry_later",
        "retry_after_seconds": 1,
    }
    return Failure(429, error(429, WRAPPED, **metadata))


def reset_headers(limit: int, seconds: float) -> dict[str, str]:
    """What says how many calls a minute may have, and when the next ones may come (ms since 1970)."""
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(round(1000 * (time.time() + seconds))),
    }


def _limited_reset(_scene: Scene) -> Failure:
    return Failure(429, error(429, "Rate limit exceeded"), reset_headers(20, 1))


def _limited_nested(scene: Scene) -> Failure:
    headers = reset_headers(20, 1)
    return Failure(429, error(429, "Rate limit exceeded: per-min", headers=headers, provider_name=scene.host))


STATUS: Mapping[str, Callable[[Scene], Failure]] = {
    "status_400_wrapped": _host_error(400, "invalid_request", '{"error":{"message":"bad request","code":400}}'),
    "status_400_context": _context,
    "status_401": _own_error(401, "User not found.", "authentication"),
    "status_402": _own_error(402, "Insufficient credits", "payment_required"),
    "status_403_moderation": _moderation,
    "status_403_region": _availability(403, "This model is not available here.", "region_restricted", retryable=False),
    "status_404": _own_error(404, "No endpoints found matching your data policy.", "not_found"),
    "status_408": _own_error(408, "Request timed out", "timeout"),
    "status_413": _own_error(413, "Request body is too large", "payload_too_large"),
    "status_422": _own_error(422, "The request cannot be processed", "unprocessable"),
    "status_429_text": _host_error(429, "rate_limit_exceeded", "rate limited upstream", Retry_After="1"),
    "status_429_object": _limited_object,
    "status_429_reset": _limited_reset,
    "status_429_nested": _limited_nested,
    "status_429_capacity": _availability(429, "No capacity is left.", "capacity_exhausted", retryable=True),
    "status_500": _own_error(500, "Internal Server Error", "server"),
    "status_502": _host_error(502, "provider_unavailable", {"object": "error", "message": "worker died", "code": 400}),
    "status_503": _own_error(503, "There is no available model provider", "provider_unavailable", Retry_After="2"),
    "status_504": _own_error(504, "The operation was aborted", "timeout"),
    "status_529": _host_error(529, "provider_overloaded", "Overloaded"),
    "html_502": _page(502, "502: Bad gateway"),
    "html_524": _page(524, "524: A timeout occurred"),
    "edge_1015": lambda _: Failure(429, EDGE_LIMIT, {"Content-Type": TEXT}),
}
"""What a client is told in place of an answer, by the name of the fault."""


INSIDE = frozenset({"inside_error", "inside_null_choices", "inside_empty_choices", "inside_choice"})


def inside(fault: str, scene: Scene, partial: Mapping[str, Any]) -> bytes:
    """The body of a 200 that is an error; `partial` is a completion of which some text was made."""
    code = scene.rng.choice([429, 500, 502, 503])
    message = f"Upstream error from {scene.host}: the connection was lost"
    metadata: dict[str, Any] = {"provider_name": scene.host, "raw": "connection lost"}
    if scene.typed:
        metadata = {"error_type": "provider_unavailable", "provider_code": None}
    told = {"message": message, "code": code, "metadata": metadata}
    if fault == "inside_choice":
        (choice,) = partial["choices"]
        choice = {**choice, "finish_reason": "error", "native_finish_reason": None, "error": told}
        return dumps({**partial, "choices": [choice]})
    if fault == "inside_error":
        return dumps({"error": told, "user_id": "user_simulated"})
    nothing = dict.fromkeys(("id", "created", "model", "object", "service_tier", "system_fingerprint", "usage"))
    choices: list[Any] | None = None if fault == "inside_null_choices" else []
    return dumps({**nothing, "choices": choices, "error": told, "user_id": "user_simulated"})
