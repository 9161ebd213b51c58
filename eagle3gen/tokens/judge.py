"""The verdict on a rebuilt answer. A wrong `exact` is the worst this product can do: when in doubt, it says so."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eagle3gen.errors import InputError
from eagle3gen.records import Completion, Json, Sample, Verdict
from eagle3gen.tokens.encoding import TooManyBlanks
from eagle3gen.tokens.loading import Tokenizer
from eagle3gen.tokens.rebuild import CUT, Rebuilt, rebuild
from eagle3gen.tokens.rivals import rival_exists

REPLACEMENT = "\ufffd"
NEAR = 2
NEAR_SHARE = 0.002
"""Up to so many tokens apart, or such a share of the answer, is drift; beyond it the reading is wrong."""
OWN_END = frozenset({"stop", "eos", "eos_token", "end_turn", "tool_calls", "tool_use", "completed"})
"""How servers say that the model ended its answer by itself."""
NO_END = frozenset({"length", "max_tokens", "content_filter", "abort", "error", "stop_sequence"})
"""How hosts say that it did not, whatever the finish reason beside it."""
OTHER_PROMPT = "prompt"
"""The hypothesis of an answer to another prompt than the rendered one."""


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
    *,
    prompt_ids: Sequence[int] | None = None,
) -> Sample:
    """Rebuild and judge one answer. Never raises for what the endpoint sent: the verdict says it.

    `prompt_ids` saves rendering the prompt again for a caller that has done it.
    """
    profile = profile or EndpointProfile()
    sample = Sample(prompt_ids=[], output_ids=[], verdict=Verdict.UNDERIVED, tokenizer_sha256=tokenizer.sha256)
    try:
        prompt_ids = tokenizer.prompt_ids(messages, tools) if prompt_ids is None else prompt_ids
    except InputError as error:
        return replace(sample, reason=str(error))
    billed = completion.usage.prompt_tokens
    difference = None if billed is None else billed - len(prompt_ids)
    sample = replace(sample, prompt_ids=prompt_ids, prompt_difference=difference)
    if completion.hidden_reasoning:
        return replace(sample, reason="the reasoning was not shown whole")
    try:
        rebuilt = rebuild(tokenizer.encoding, completion, messages)
    except UnicodeEncodeError:
        return replace(sample, verdict=Verdict.LOSSY_TEXT, reason="the text holds half of a character")
    except TooManyBlanks as error:
        return replace(sample, reason=str(error))
    sample = replace(
        sample,
        output_ids=rebuilt.ids,
        hypothesis=rebuilt.hypothesis,
        difference=_difference(completion, rebuilt, profile),
    )
    return _judged(tokenizer, completion, sample, profile)


def _difference(completion: Completion, rebuilt: Rebuilt, profile: EndpointProfile) -> int | None:
    billed = completion.usage.completion_tokens
    if billed is None:
        return None
    uncounted = 0 if profile.end_token_counted or completion.finish_reason == CUT else 1
    return billed - (len(rebuilt.ids) - uncounted)


def _judged(tokenizer: Tokenizer, completion: Completion, sample: Sample, profile: EndpointProfile) -> Sample:
    """The checks in their order: what the text cannot tell, then what the bill says, then what else would cost it."""
    if any(REPLACEMENT in text for text in _texts(completion)):
        reason = "the text holds U+FFFD, which stands for bytes that are gone"
        return replace(sample, verdict=Verdict.LOSSY_TEXT, reason=reason)
    if reason := _other_prompt(completion, sample):
        return replace(sample, verdict=Verdict.MISMATCH, hypothesis=OTHER_PROMPT, reason=reason)
    if completion.finish_reason == CUT:
        return replace(sample, verdict=Verdict.TRUNCATED, reason="the answer was cut at its limit")
    if completion.output_token_ids is not None:
        return _held_against_ids(completion.output_token_ids, sample)
    if unknown := _unknown(tokenizer, completion, sample):
        return replace(sample, reason=unknown)
    if doubt := _doubt_in_text(tokenizer, completion):
        return replace(sample, verdict=Verdict.AMBIGUOUS, reason=doubt)
    if sample.difference:
        near = max(NEAR, int(len(sample.output_ids) * NEAR_SHARE))
        verdict = Verdict.OFF_BY_K if abs(sample.difference) <= near else Verdict.MISMATCH
        reason = f"{sample.difference:+} tokens billed beyond the {len(sample.output_ids):,} rebuilt"
        return replace(sample, verdict=verdict, reason=reason)
    if _may_be_stripped(tokenizer, completion, profile):
        reason = "the host may have stripped blanks: with them the answer would cost the same"
        return replace(sample, verdict=Verdict.AMBIGUOUS, reason=reason)
    return replace(sample, verdict=Verdict.EXACT_COUNT if sample.hypothesis == "base" else Verdict.REPAIRED)


def _other_prompt(completion: Completion, sample: Sample) -> str:
    """Why the server read another prompt than the rendered one, if it did."""
    if sample.prompt_difference:
        return f"{sample.prompt_difference:+} prompt tokens billed beyond the rendered ones: another template or prompt"
    told = completion.prompt_token_ids
    if told is not None and list(told) != list(sample.prompt_ids):
        return "the server read other prompt ids than the rendered ones: another template or prompt"
    return ""


def _held_against_ids(told: Sequence[int], sample: Sample) -> Sample:
    """The server's own ids are the truth; a rebuilding that differs from them is wrong."""
    if list(told) == list(sample.output_ids):
        return replace(sample, verdict=Verdict.EXACT_IDS)
    return replace(sample, verdict=Verdict.MISMATCH, reason="the server's own ids are others than the rebuilt ones")


def _unknown(tokenizer: Tokenizer, completion: Completion, sample: Sample) -> str:
    """Why the structure or the bill is not known, if so."""
    ends = {str(i) for i in tokenizer.family.end_of_turn_ids}
    if completion.stop_reason is not None and completion.stop_reason.lower() not in ends | OWN_END:
        return f"the answer was ended by {completion.stop_reason!r}, not by the model's end token"
    if (completion.native_finish_reason or "").lower() in NO_END:
        return f"the host itself says that the answer ended by {completion.native_finish_reason!r}"
    if completion.finish_reason not in {"stop", "tool_calls"}:
        return f"the finish reason {completion.finish_reason!r} does not say how the answer ended"
    if not completion.content and not completion.tool_calls:
        return "there is neither content nor a tool call after the reasoning"
    if completion.finish_reason == "tool_calls" and not completion.tool_calls:
        return "the answer ended with tool calls but holds none"
    if sample.difference is None:
        return "the endpoint did not say how many tokens it billed"
    return ""


def _doubt_in_text(tokenizer: Tokenizer, completion: Completion) -> str:
    """Why the text can be read in two ways, whatever the bill says."""
    for text in _texts(completion):
        if spelled := tokenizer.encoding.control_strings_in(text):
            return f"the text spells {spelled[0]}, which may have been the control token itself"
    if completion.content and not completion.reasoning:
        # A server that drops `</think>` shows the thinking as content, at the same count.
        return "there is no reasoning: the content may hold it, without the tag between them"
    return ""


def _texts(completion: Completion) -> list[str]:
    calls = [text for call in completion.tool_calls for text in (call.id, call.name, call.arguments)]
    return [completion.reasoning or "", completion.content or "", *calls]


def _may_be_stripped(tokenizer: Tokenizer, completion: Completion, profile: EndpointProfile) -> bool:
    if profile.strips_whitespace is not None:
        return profile.strips_whitespace
    return rival_exists(tokenizer.encoding, completion)
