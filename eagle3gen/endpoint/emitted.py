"""The token ids that a server tells of its own accord: `return_token_ids` of vLLM and SGLang, and logprobs.

vLLM: `prompt_token_ids` beside `choices`, `token_ids` inside a choice; with `return_tokens_as_token_ids` the tokens of
logprobs are spelled `token_id:N`. What is not whole is None: a proof with a gap is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ID_MAX = 2**31 - 1
SPELLED = "token_id:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What the server says it read and wrote."""

    prompt_ids: tuple[int, ...] | None = None
    output_ids: tuple[int, ...] | None = None
    output_bytes: tuple[bytes, ...] | None = None


def read_emitted(data: Mapping[str, Any], choice: Mapping[str, Any]) -> Emitted:
    """The ids beside an answer; never raises."""
    tokens = _logprob_tokens(choice)
    spelled = _ids([_spelled_id(token.get("token")) for token in tokens]) if tokens else None
    return Emitted(
        prompt_ids=_ids(data.get("prompt_token_ids") or choice.get("prompt_token_ids")),
        output_ids=_ids(choice.get("token_ids")) or spelled,
        output_bytes=_bytes([token.get("bytes") for token in tokens]) if tokens else None,
    )


def _logprob_tokens(choice: Mapping[str, Any]) -> list[dict[str, Any]]:
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not all(isinstance(token, dict) for token in content):
        return []
    return content


def _spelled_id(token: Any) -> int | None:
    digits = token.removeprefix(SPELLED) if isinstance(token, str) and token.startswith(SPELLED) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None


def _ids(values: Any) -> tuple[int, ...] | None:
    if not isinstance(values, list) or not values:
        return None
    sound = all(type(value) is int and 0 <= value <= ID_MAX for value in values)
    return tuple(values) if sound else None


def _bytes(values: list[Any]) -> tuple[bytes, ...] | None:
    try:
        return tuple(bytes(value) if isinstance(value, list) else b"" + value for value in values)
    except (TypeError, ValueError):
        return None
