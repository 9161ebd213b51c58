"""The endpoint's own record of one call: its bill, for a call whose answer never came."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle3gen.endpoint.answer import label
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.usage import read_count, read_money
from eagle3gen.records import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What the record says; only complete bills become one."""

    model: str | None
    host: str | None
    finish_reason: str | None
    usage: Usage


async def read_generation(endpoint: Endpoint, generation_id: str) -> Generation | None:
    """The record, or None while there is none: it appears seconds, and after broken calls minutes, later.

    Raises ServiceUnreachable. Source: OpenRouter's `GET /generation?id=`.
    """
    status, reply = await endpoint.get("/generation", {"id": generation_id})
    data = reply.get("data") if status == 200 and isinstance(reply, Mapping) else None
    return generation_from(data) if isinstance(data, Mapping) else None


def generation_from(data: Mapping[str, Any]) -> Generation | None:
    """A bill without its tokens or its cost is none: it is asked for again.

    The native counts are those that are billed. Under BYOK the upstream's bill comes on top.
    """
    tokens, cost = read_count(data.get("native_tokens_completion")), read_money(data.get("total_cost"))
    upstream = read_money(data.get("upstream_inference_cost"))
    if tokens is None or cost is None:
        return None
    if data.get("is_byok") is True and upstream is not None:
        cost += upstream
    return Generation(
        model=label(data.get("model")),
        host=label(data.get("provider_name")),
        finish_reason=label(data.get("finish_reason")),
        usage=Usage(
            prompt_tokens=read_count(data.get("native_tokens_prompt")),
            completion_tokens=tokens,
            reasoning_tokens=read_count(data.get("native_tokens_reasoning")),
            cached_tokens=read_count(data.get("native_tokens_cached")),
            cost_usd=cost,
        ),
    )
