"""The verdict on a rebuilt answer. A wrong `exact` is the worst this product can do: when in doubt, it says so."""

from collections.abc import Sequence
from dataclasses import dataclass

from eagle3gen.errors import InputError
from eagle3gen.records import Completion, Json, Sample, Verdict
from eagle3gen.tokens.loading import Tokenizer
from eagle3gen.tokens.rebuild import CUT, Rebuilt, rebuild

REPLACEMENT = "\ufffd"
NEAR = 2
NEAR_SHARE = 0.002
"""Up to so many tokens apart, or such a share of the answer, is drift; beyond it the reading is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointProfile:
    """How an endpoint counts, and what it does to the text."""

    end_token_counted: bool = True
    """Whether the bill counts the end-of-turn token; vLLM and SGLang do."""
    strips_whitespace: bool | None = None
    """None: not measured."""


def make_sample(
    tokenizer: Tokenizer,
    messages: Sequence[Json],
    tools: Sequence[Json],
    completion: Completion,
    profile: EndpointProfile | None = None,
) -> Sample:
    """Rebuild and judge one answer. Never raises for what the endpoint sent: the verdict says it."""
    profile = profile or EndpointProfile()
    try:
        prompt_ids = tokenizer.prompt_ids(messages, tools)
    except InputError as error:
        return _sample(tokenizer, [], [], Verdict.UNDERIVED, reason=str(error))
    if completion.hidden_reasoning:
        return _sample(tokenizer, prompt_ids, [], Verdict.UNDERIVED, reason="the reasoning was not shown whole")
    try:
        rebuilt = rebuild(tokenizer.encoding, completion, messages)
    except UnicodeEncodeError:
        return _sample(tokenizer, prompt_ids, [], Verdict.LOSSY_TEXT, reason="the text holds half of a character")
    difference = _difference(completion, rebuilt, profile)
    billed_prompt = completion.usage.prompt_tokens
    prompt_difference = None if billed_prompt is None else billed_prompt - len(prompt_ids)
    verdict, reason = _verdict(tokenizer, completion, rebuilt, difference, prompt_difference, profile)
    return _sample(
        tokenizer,
        prompt_ids,
        rebuilt.ids,
        verdict,
        reason=reason,
        difference=difference,
        prompt_difference=prompt_difference,
        hypothesis=rebuilt.hypothesis,
    )


def _difference(completion: Completion, rebuilt: Rebuilt, profile: EndpointProfile) -> int | None:
    billed = completion.usage.completion_tokens
    if billed is None:
        return None
    uncounted = 0 if profile.end_token_counted or completion.finish_reason == CUT else 1
    return billed - (len(rebuilt.ids) - uncounted)


def _verdict(
    tokenizer: Tokenizer,
    completion: Completion,
    rebuilt: Rebuilt,
    difference: int | None,
    prompt_difference: int | None,
    profile: EndpointProfile,
) -> tuple[Verdict, str]:
    """The checks in their order: each one is a way in which agreeing counts would prove nothing."""
    texts = _texts(completion)
    if any(REPLACEMENT in text for text in texts):
        return Verdict.LOSSY_TEXT, "the text holds U+FFFD, which stands for bytes that are gone"
    if completion.finish_reason == CUT:
        return Verdict.TRUNCATED, "the answer was cut at its limit"
    if completion.finish_reason not in {"stop", "tool_calls"}:
        return Verdict.UNDERIVED, f"the finish reason {completion.finish_reason!r} does not say how the answer ended"
    if not completion.content and not completion.tool_calls:
        return Verdict.UNDERIVED, "there is neither content nor a tool call after the reasoning"
    if difference is None:
        return Verdict.UNDERIVED, "the endpoint did not say how many tokens it billed"
    if prompt_difference:
        sentence = f"{prompt_difference:+} prompt tokens billed beyond the rendered ones: another template or prompt"
        return Verdict.MISMATCH, sentence
    if spelled := [s for text in texts for s in tokenizer.encoding.control_strings_in(text)]:
        return Verdict.AMBIGUOUS, f"the text spells {spelled[0]}, which may have been the control token itself"
    if difference:
        near = max(NEAR, int(len(rebuilt.ids) * NEAR_SHARE))
        verdict = Verdict.OFF_BY_K if abs(difference) <= near else Verdict.MISMATCH
        return verdict, f"{difference:+} tokens billed beyond the {len(rebuilt.ids):,} rebuilt"
    if _may_be_stripped(completion, profile):
        return Verdict.AMBIGUOUS, "no text begins with a blank: the host may have stripped some, at the same count"
    return (Verdict.EXACT_COUNT if rebuilt.hypothesis == "base" else Verdict.REPAIRED), ""


def _texts(completion: Completion) -> list[str]:
    calls = [text for call in completion.tool_calls for text in (call.id, call.name, call.arguments)]
    return [completion.reasoning or "", completion.content or "", *calls]


def _may_be_stripped(completion: Completion, profile: EndpointProfile) -> bool:
    """Whether a blank may be missing: a word is one token with it and without; only a blank that came proves it."""
    if profile.strips_whitespace is not None:
        return profile.strips_whitespace
    return not any(text[:1].isspace() for text in (completion.reasoning or "", completion.content or ""))


def _sample(
    tokenizer: Tokenizer,
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    verdict: Verdict,
    *,
    reason: str,
    difference: int | None = None,
    prompt_difference: int | None = None,
    hypothesis: str = "base",
) -> Sample:
    return Sample(
        prompt_ids=prompt_ids,
        output_ids=output_ids,
        verdict=verdict,
        difference=difference,
        prompt_difference=prompt_difference,
        hypothesis=hypothesis,
        reason=reason,
        tokenizer_sha256=tokenizer.sha256,
    )
