"""What a server says beside its answer is held against what was rebuilt: a contradiction is never exact."""

import json

import pytest

from eagle3gen.endpoint.reply import read_reply
from eagle3gen.records import Verdict
from eagle3gen.tokens.judge import make_sample
from eagle3gen.tokens.loading import load_tokenizer_once

TOKENIZER = load_tokenizer_once("builtin:kimi-mini")
FAMILY = TOKENIZER.encoding.family
MESSAGES = [{"role": "user", "content": "Hi"}]
REASONING, CONTENT = " I think so. \n", " Yes, sure. \n"


def judged(last: list[int], *, beside=None, **choice):
    """The sample of an answer whose ids end with `last`, and those ids."""
    encode = TOKENIZER.encoding.encode_text
    true = [*encode(REASONING), FAMILY.think_close_id, *encode(CONTENT), *last]
    usage = {"prompt_tokens": len(TOKENIZER.prompt_ids(MESSAGES, ())), "completion_tokens": len(true)}
    message = {"reasoning": REASONING, "content": CONTENT}
    choices = [
        {"finish_reason": "stop", "message": message, **{k: v(true) if callable(v) else v for k, v in choice.items()}}
    ]
    reply = read_reply(200, {}, json.dumps({"id": "g", "choices": choices, "usage": usage, **(beside or {})}).encode())
    return make_sample(TOKENIZER, MESSAGES, (), reply.completion), true


def test_ids_of_the_server_that_contradict_ours_are_never_exact() -> None:
    sample, true = judged([FAMILY.id("[EOS]")], token_ids=list)
    assert not sample.verdict.trainable or list(sample.output_ids) == true


def test_prompt_ids_of_the_server_that_contradict_ours_are_never_exact() -> None:
    sample, _ = judged([FAMILY.id(FAMILY.end_of_turn)], beside={"prompt_token_ids": [1, 2, 3]})
    assert sample.verdict is not Verdict.EXACT_COUNT


@pytest.mark.parametrize("reason", [163_585, 5, "###"])
def test_an_answer_that_ended_at_another_stop_is_never_exact(reason: int | str) -> None:
    sample, _ = judged([5], stop_reason=reason)
    assert not sample.verdict.trainable


@pytest.mark.parametrize("native", ["length", "content_filter", "abort"])
def test_a_native_finish_reason_that_contradicts_the_end_is_never_exact(native: str) -> None:
    sample, _ = judged([5], native_finish_reason=native)
    assert not sample.verdict.trainable


@pytest.mark.parametrize("reason", [163_586, "stop", "EOS", None])
def test_the_models_own_end_is_exact_however_it_is_spelled(reason) -> None:
    assert judged([FAMILY.id(FAMILY.end_of_turn)], stop_reason=reason)[0].verdict is Verdict.EXACT_COUNT


def test_ids_of_the_server_that_agree_are_proved_by_them() -> None:
    sample, true = judged([FAMILY.id(FAMILY.end_of_turn)], token_ids=list)
    assert (sample.verdict, list(sample.output_ids)) == (Verdict.EXACT_IDS, true)
