"""The structural check sees what no count can: control ids that are wrong, missing or out of place."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.records import Completion, Sample, ToolCall, Usage, Verdict
from eagle3gen.tokens import family as families
from eagle3gen.tokens import loading
from eagle3gen.tokens.encoding import KimiEncoding
from eagle3gen.tokens.judge import make_sample
from eagle3gen.tokens.published import PUBLISHED
from eagle3gen.tokens.structure import structural_fault

from .conftest import CLOSE, CONTROL, END, THINK

ASKED = [{"role": "user", "content": "x"}]
CALLS = (ToolCall(id="functions.f:0", name="f", arguments='{"a":1}'),)
BEGIN, FINISH = CONTROL["<|tool_calls_section_begin|>"], CONTROL["<|tool_calls_section_end|>"]
CALL, ARGUMENT, CALL_END = (CONTROL[f"<|tool_call_{part}|>"] for part in ("begin", "argument_begin", "end"))


def made(tokenizer, **changes) -> Sample:
    fields = {
        "generation_id": None,
        "model": None,
        "host": None,
        "finish_reason": "stop",
        "reasoning": " because",
        "content": " Hello",
        "usage": Usage(completion_tokens=9, cost_usd=Decimal(0)),
    }
    return make_sample(tokenizer, ASKED, (), Completion(**{**fields, **changes}))


def with_output(tokenizer, *ids: int, verdict: Verdict = Verdict.EXACT_COUNT) -> Sample:
    return replace(made(tokenizer), output_ids=ids, verdict=verdict)


texts = st.text(st.characters(codec="utf-8", exclude_characters="<[\ufffd"), min_size=1, max_size=60)


@given(reasoning=texts, content=texts | st.none(), calls=st.sampled_from([(), CALLS, CALLS * 3]))
def test_a_rebuilt_answer_has_no_fault(tokenizer, reasoning, content, calls) -> None:
    sample = made(tokenizer, reasoning=reasoning, content=content, tool_calls=calls)
    assert structural_fault(sample, tokenizer) == ""


@pytest.mark.parametrize("reached", [{"content": None}, {}, {"tool_calls": CALLS}])
def test_a_cut_answer_has_no_fault(tokenizer, reached) -> None:
    sample = made(tokenizer, finish_reason="length", **reached)
    assert sample.verdict is Verdict.TRUNCATED
    assert structural_fault(sample, tokenizer) == ""


def test_an_answer_that_was_not_rebuilt_has_no_structure_to_check(tokenizer) -> None:
    assert structural_fault(made(tokenizer, hidden_reasoning=True), tokenizer) == ""


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ((70, CLOSE, 71), "ends with 71, not with an end of turn"),
        ((70, CLOSE, 71, 163_533), "163533, which is neither"),
        ((70, CLOSE, 71, 163_585), "ends with 163585"),
        ((70, CLOSE, END, 71, END), "goes on after 163586"),
        ((70, CLOSE, 71, END, END), "goes on after 163586"),
        ((70, 71, END), "never closes its thinking"),
        ((70, CLOSE, 71, CLOSE, END), "closes it 2 times"),
        ((THINK, 70, CLOSE, 71, END), "<think>, which stands in the prompt"),
        ((70, CLOSE, 163_589, END), "<|reserved_token_163589|> (163589) stands where"),
        ((70, CLOSE, CONTROL["<|im_user|>"], END), "<|im_user|> (163587) stands where"),
        ((70, CLOSE, 163_840, END), "163840, which is neither"),
        ((-1, CLOSE, END), "holds -1"),
        ((3_000, CLOSE, END), "3000, which is neither"),
        ((70, CLOSE, BEGIN, END), "never closes <|tool_calls_section_begin|>"),
        ((70, CLOSE, CALL, 70, ARGUMENT, 71, CALL_END, END), "<|tool_call_begin|> (163597) stands where"),
        ((70, CLOSE, BEGIN, CALL, 70, CALL_END, FINISH, END), "closes <|tool_call_begin|> without"),
        ((70, CLOSE, BEGIN, CALL, 70, ARGUMENT, ARGUMENT, CALL_END, FINISH, END), "(163598) stands where"),
        ((70, CLOSE, BEGIN, CALL, 70, ARGUMENT, FINISH, CALL_END, END), "(163596) stands where"),
        ((70, BEGIN, CALL, 70, CLOSE, ARGUMENT, CALL_END, FINISH, END), "</think> (163607) stands where"),
        ((70, CLOSE, FINISH, END), "(163596) stands where"),
    ],
)
def test_each_fault_is_named(tokenizer, output, said) -> None:
    assert said in structural_fault(with_output(tokenizer, *output), tokenizer)


def test_a_cut_answer_that_ends_a_turn_is_a_fault(tokenizer) -> None:
    sample = with_output(tokenizer, 70, CLOSE, 71, END, verdict=Verdict.TRUNCATED)
    assert "was cut, but" in structural_fault(sample, tokenizer)


def test_going_straight_to_the_tools_is_no_fault_if_the_reading_says_so(tokenizer) -> None:
    sample = with_output(tokenizer, 70, BEGIN, CALL, 70, ARGUMENT, 71, CALL_END, FINISH, END)
    assert "never closes its thinking" in structural_fault(sample, tokenizer)
    assert structural_fault(replace(sample, hypothesis="implicit close"), tokenizer) == ""
    assert structural_fault(replace(sample, verdict=Verdict.EXACT_IDS), tokenizer) == ""


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ((), "no prompt ids"),
        ((70, 163_588, 163_601, THINK), "begins with 70"),
        ((163_587, 163_601, 70, END, 163_588, 163_601), "the prompt ends with"),
        ((163_587, 163_601, 70, END, 163_588, 163_601, THINK, 70), "the prompt ends with"),
    ],
)
def test_a_prompt_that_does_not_lead_to_an_answer_is_a_fault(tokenizer, prompt, said) -> None:
    assert said in structural_fault(replace(made(tokenizer), prompt_ids=prompt), tokenizer)


@pytest.mark.parametrize(
    ("content", "leaks"),
    [
        (" <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_calls_section_end|> ok", True),
        ("done.<|im_end|>", True),
        ("<think> first", True),
        (" the tag </think> closes it", False),
        (" write `<|tool_call_begin|>` first", False),
    ],
)
def test_leaked_control_strings_are_a_fault_and_quoted_ones_are_not(tokenizer, content, leaks) -> None:
    assert ("leaked" in structural_fault(made(tokenizer, content=content), tokenizer)) is leaks


def unprobed(monkeypatch) -> None:
    for probe in ("probe_files", "probe_encoding", "probe_template"):
        monkeypatch.setattr(loading, probe, lambda *_: None)


@pytest.mark.parametrize("control", sorted(CONTROL))
@pytest.mark.parametrize("to", [163_533, 163_589])
def test_one_shifted_control_id_of_a_folder_is_seen_without_the_probe(folder, monkeypatch, control, to) -> None:
    unprobed(monkeypatch)
    path = folder / "tokenizer_config.json"
    data = json.loads(path.read_text("utf-8"))
    added = data["added_tokens_decoder"]
    added[str(to)] = added.pop(str(CONTROL[control]))
    path.write_text(json.dumps(data), "utf-8")
    damaged = loading.load_tokenizer(str(folder))
    assert f"{control} at {to}, which is {CONTROL[control]}" in structural_fault(made(damaged), damaged)


@pytest.mark.parametrize("control", ["<|im_end|>", "</think>", "<|tool_call_begin|>", "<|tool_calls_section_end|>"])
def test_a_slip_in_the_family_s_own_data_is_seen_too(tokenizer, control) -> None:
    """Probe, folder and family may all agree on a wrong id: the published numbers are held apart from them."""
    slipped = families.KIMI_K25.control_ids | {control: CONTROL[control] + 4}
    family = replace(families.KIMI_K25, control_ids=slipped)
    damaged = replace(tokenizer, family=family, encoding=_encoding(family))
    assert structural_fault(made(damaged, tool_calls=CALLS), damaged)


def _encoding(family) -> KimiEncoding:
    ranks = loading.read_folder("builtin:kimi-mini").ranks
    return KimiEncoding(ranks, dict(family.control_ids), family)


def test_the_published_numbers_are_those_of_the_family(tokenizer) -> None:
    published = PUBLISHED["kimi-k2.5"]
    assert {spelled: i for i, spelled in published.names.items()} == dict(families.KIMI_K25.control_ids)
    assert published.ranks_sha256 == families.KIMI_K25.ranks_sha256


def test_byte_pairs_as_many_as_the_published_ones_must_be_them(tokenizer) -> None:
    encoding = _encoding(tokenizer.family)
    encoding.base_size = PUBLISHED["kimi-k2.5"].ranks
    assert "byte pairs" in structural_fault(made(tokenizer), replace(tokenizer, encoding=encoding))
