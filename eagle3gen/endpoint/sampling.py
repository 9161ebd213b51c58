"""Sampling parameters: checked before they cost money, and in OpenRouter's own words when they are sent.

Ranges and names: https://openrouter.ai/docs/api-reference/parameters. What is not known here is sent as it is, since
other servers take more (`chat_template_kwargs`, `min_tokens`, …).
"""

import difflib
from collections.abc import Mapping
from typing import Any

from eagle3gen.errors import InputError

RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "top_k": (-1, 1_000_000),
    "min_p": (0, 1),
    "top_a": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0, 2),
    "top_logprobs": (0, 20),
}
WHOLE = frozenset({"top_k", "top_logprobs", "seed"})
OTHER = frozenset(
    {"seed", "logit_bias", "logprobs", "reasoning", "reasoning_effort", "include_reasoning", "tool_choice"}
    | {"parallel_tool_calls", "response_format", "service_tier", "structured_outputs", "verbosity"}
)
KNOWN = frozenset(RANGES) | OTHER
EFFORTS = ("max", "xhigh", "high", "medium", "low", "minimal", "none")
TAKEN: Mapping[str, str] = {
    **dict.fromkeys(("model", "messages", "tools"), "it comes from the dataset and the prompt"),
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), "the queue's max_tokens bounds what an answer can cost"),
    **dict.fromkeys(("stream", "stream_options"), "the transport decides"),
    **dict.fromkeys(("provider", "models", "route"), "hosts are chosen by the routing options"),
    **dict.fromkeys(("plugins", "transforms"), "prompts must not be altered on their way"),
    **dict.fromkeys(("session_id", "prompt_cache_key"), "it would send every prompt to the same host"),
    **dict.fromkeys(("n", "best_of"), "every prompt gets one answer"),
    **dict.fromkeys(
        ("stop", "stop_token_ids", "ignore_eos", "include_stop_str_in_output"),
        "an answer that does not end with its end token cannot be told from one that does",
    ),
    **dict.fromkeys(
        (
            "prompt",
            "echo",
            "chat_template",
            "add_generation_prompt",
            "continue_final_message",
            "truncate_prompt_tokens",
        ),
        "the prompt is rendered by the model's own template, and its ids must be those that were read",
    ),
    "skip_special_tokens": "what a server leaves out cannot be rebuilt",
}
"""What is not sampling, and why it cannot be set here."""


def check_sampling(sampling: Mapping[str, Any]) -> None:
    """Raises InputError for parameters that no endpoint takes, or that would spoil every answer."""
    for name, value in sampling.items():
        if name in TAKEN and not (name in {"n", "best_of"} and value == 1):
            raise InputError(f"sampling cannot set {name}: {TAKEN[name]}; leave it out")
        if name in RANGES:
            _check_range(name, value)
        elif name not in KNOWN and (near := difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)):
            raise InputError(f"sampling parameter {name} is not known; did you mean {near[0]}?")
    seed = sampling.get("seed")
    if seed is not None and type(seed) is not int:
        raise InputError(f"sampling parameter seed must be a whole number, not {seed!r}")
    _check_reasoning(sampling)


def _check_range(name: str, value: Any) -> None:
    low, high = RANGES[name]
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"sampling parameter {name} must be between {low:g} and {high:g}, not {value!r}")
    if name in WHOLE and not isinstance(value, int):
        raise InputError(f"sampling parameter {name} must be a whole number, not {value!r}")


def _check_reasoning(sampling: Mapping[str, Any]) -> None:
    reasoning, short = sampling.get("reasoning"), sampling.get("reasoning_effort")
    if sampling.get("include_reasoning") is False:
        raise InputError("sampling asks to leave out the reasoning: it is billed and could not be rebuilt; leave it in")
    if reasoning is not None and not isinstance(reasoning, Mapping):
        raise InputError(f"sampling parameter reasoning must be an object such as {{'effort': 'high'}}: {reasoning!r}")
    reasoning = reasoning or {}
    if reasoning.get("exclude"):
        raise InputError("sampling asks to exclude the reasoning: it is billed and could not be rebuilt; leave it in")
    if reasoning.get("effort") is not None and reasoning.get("max_tokens") is not None:
        raise InputError("sampling gives reasoning both an effort and max_tokens; keep one of them")
    for effort in (reasoning.get("effort"), short):
        if effort is not None and effort not in EFFORTS:
            raise InputError(f"reasoning effort {effort!r} is not known; use one of {', '.join(EFFORTS)}")
    if short is not None and reasoning.get("effort", short) != short:
        raise InputError("sampling contradicts itself: reasoning_effort and reasoning.effort differ; keep one of them")


def openrouter_sampling(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The same parameters with all that is said on reasoning in one object, which never excludes it."""
    rest = {k: v for k, v in sampling.items() if k not in {"reasoning", "reasoning_effort", "include_reasoning"}}
    short = sampling.get("reasoning_effort")
    reasoning = {**({} if short is None else {"effort": short}), **(sampling.get("reasoning") or {})}
    return {**rest, "reasoning": {**reasoning, "exclude": False}}
