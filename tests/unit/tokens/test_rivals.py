"""Hosts alter answers in many ways; whatever they do, what is called exact is what the model emitted."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.records import Completion, ToolCall, Usage, Verdict
from eagle3gen.tokens.judge import EndpointProfile, make_sample
from eagle3gen.tokens.rivals import rival_exists

from .conftest import CLOSE, CONTROL, END

ASKED = [{"role": "user", "content": "x"}]


@dataclass
class Emitted:
    """What a model wrote. Each text is what stands between two control tokens."""

    reasoning: str
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Id and arguments."""
    closes: bool = True
    """Whether it wrote `</think>`, which Kimi may leave out before tools."""
    cut: int | None = None

    def ids(self, oracle) -> list[int]:
        ids = [*oracle(self.reasoning), *([CLOSE] if self.closes else []), *oracle(self.content)]
        if self.calls:
            ids.append(CONTROL["<|tool_calls_section_begin|>"])
            for call_id, arguments in self.calls:
                ids += [CONTROL["<|tool_call_begin|>"], *oracle(call_id), CONTROL["<|tool_call_argument_begin|>"]]
                ids += [*oracle(arguments), CONTROL["<|tool_call_end|>"]]
            ids.append(CONTROL["<|tool_calls_section_end|>"])
        return [*ids, END][: self.cut]


def answered(emitted: Emitted, billed: int) -> Completion:
    """What a host shows that changes nothing."""
    calls = tuple(
        ToolCall(id=i, name=i.split(":")[0].removeprefix("functions."), arguments=a) for i, a in emitted.calls
    )
    return Completion(
        generation_id="gen-1",
        model="m",
        host="h",
        finish_reason="tool_calls" if calls else "stop",
        reasoning=emitted.reasoning or None,
        content=emitted.content or None,
        tool_calls=calls,
        usage=Usage(completion_tokens=billed),
    )


def strip(fields: str):
    def host(shown: dict, emitted: Emitted) -> dict:
        return shown | {name: shown[name].strip() for name in fields.split() if shown[name]}

    return host


def trims_one_line_break(shown: dict, emitted: Emitted) -> dict:
    if not emitted.closes:
        return shown  # two rare things at once, which one answer cannot show
    return shown | {name: shown[name].removeprefix("\n") for name in ("reasoning", "content") if shown[name]}


def drops_the_tag(shown: dict, emitted: Emitted) -> dict:
    """A server without special tokens in its text, and so without a split."""
    return shown | {"reasoning": None, "content": emitted.reasoning + emitted.content}


def drops_the_tag_into_reasoning(shown: dict, emitted: Emitted) -> dict:
    # Tool calls come out only where control tokens are kept, and then the tag is too.
    return shown if emitted.calls else shown | {"reasoning": emitted.reasoning + emitted.content, "content": None}


def spells_the_tag(shown: dict, emitted: Emitted) -> dict:
    return shown | {"reasoning": None, "content": f"{emitted.reasoning}</think>{emitted.content}"}


def leaks_the_section(shown: dict, emitted: Emitted) -> dict:
    spelled = "".join(
        f"<|tool_call_begin|>{i}<|tool_call_argument_begin|>{a}<|tool_call_end|>" for i, a in emitted.calls
    )
    content = f"{emitted.content}<|tool_calls_section_begin|>{spelled}<|tool_calls_section_end|>"
    return shown | {"content": content, "tool_calls": (), "finish_reason": "stop"} if emitted.calls else shown


def loses_the_calls(shown: dict, emitted: Emitted) -> dict:
    return shown | {"tool_calls": ()}


def invents_ids(shown: dict, emitted: Emitted) -> dict:
    calls = tuple(
        ToolCall(id=f"call_{n}", name=c.name, arguments=c.arguments) for n, c in enumerate(shown["tool_calls"])
    )
    return shown | {"tool_calls": calls}


def loses_a_byte(shown: dict, emitted: Emitted) -> dict:
    return shown | {"content": shown["content"][:-1] + "\ufffd" if shown["content"] else None}


HOSTS = {
    "changes nothing": lambda shown, emitted: shown,
    "strips all": strip("reasoning content"),
    "strips content": strip("content"),
    "strips reasoning": strip("reasoning"),
    "trims one line break": trims_one_line_break,
    "drops </think>": drops_the_tag,
    "drops </think> into reasoning": drops_the_tag_into_reasoning,
    "spells </think>": spells_the_tag,
    "leaks the section": leaks_the_section,
    "loses the calls": loses_the_calls,
    "invents ids": invents_ids,
    "loses a byte": loses_a_byte,
}

WORDS = [
    "Hello",
    "the",
    "token",
    "x = 1",
    "你好",
    "世界。",
    "🎉",
    "def f(x):",
    "naïve",
    "1234",
    "don't",
    "```",
    "done.",
    "{",
    "-",
]
BLANKS = ["", " ", "\n", "\n\n", "  ", "\t", " \n"]


def said(rng: random.Random, blanks: list[str] = BLANKS) -> str:
    """A text as models write it: words, and blanks between and around them."""
    words = "".join(rng.choice(WORDS) + rng.choice([" ", "\n", "", " "]) for _ in range(rng.randint(1, 12))).strip()
    return rng.choice(blanks) + words + rng.choice(["", "", *blanks])


def emitted_by(rng: random.Random) -> Emitted:
    emitted = Emitted(said(rng), rng.choice([said(rng), said(rng), ""]))
    if not emitted.content or rng.random() < 0.3:
        names = [rng.choice(["look_up", "f", "run-it"]) for _ in range(rng.randint(1, 3))]
        emitted.calls = [
            (f"functions.{n}:{i}", rng.choice(['{"a":1}', '{"q": "你"}', "{}"])) for i, n in enumerate(names)
        ]
        emitted.closes = bool(emitted.content) or rng.random() < 0.5
    return emitted


@pytest.mark.parametrize("host", HOSTS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_what_is_called_exact_is_what_was_emitted(tokenizer, oracle, host, seed) -> None:
    """Whatever a host does to the text: the ids are true, or the verdict does not say that they are."""
    rng = random.Random(seed)
    for _ in range(5):
        emitted = emitted_by(rng)
        true = emitted.ids(oracle)
        made = answered(emitted, len(true))
        shown = HOSTS[host]({name: getattr(made, name) for name in made.__slots__}, emitted)
        sample = make_sample(tokenizer, ASKED, (), Completion(**shown))
        if sample.verdict.trainable:
            assert list(sample.output_ids) == true, (emitted, sample)


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_a_host_that_keeps_the_blank_before_each_text_is_exact(tokenizer, oracle, seed) -> None:
    """As Kimi's hosts were recorded: both texts begin with a blank."""
    rng = random.Random(seed)
    emitted = Emitted(said(rng, [" "]), said(rng, [" "]))
    true = emitted.ids(oracle)
    sample = make_sample(tokenizer, ASKED, (), answered(emitted, len(true)))
    assert (sample.verdict, list(sample.output_ids)) == (Verdict.EXACT_COUNT, true)


@given(seed=st.integers(0, 2**32))
def test_a_host_measured_to_strip_nothing_is_exact_without_blanks(tokenizer, oracle, seed) -> None:
    rng = random.Random(seed)
    emitted = Emitted(said(rng, [""]), said(rng, [""]))
    made = answered(emitted, len(emitted.ids(oracle)))
    sample = make_sample(tokenizer, ASKED, (), made, EndpointProfile(strips_whitespace=False))
    assert sample.verdict is Verdict.EXACT_COUNT


@pytest.mark.parametrize(
    ("reasoning", "content", "calls", "exists"),
    [
        (" Hello", " Hello", 0, False),
        ("Hello", " Hello", 0, True),
        (" Hello", "Hello", 0, True),
        ("Hello\n", "Hello\n", 0, False),
        ("你好", "你好", 0, False),
        (" Hello", None, 1, False),
        (None, None, 1, True),
    ],
)
def test_when_another_reading_costs_the_same(tokenizer, reasoning, content, calls, exists) -> None:
    """A blank before a word is free, before Han it is not; a lost blank pays for a lost `</think>`."""
    made = answered(Emitted(reasoning or "", content or "", [("functions.f:0", "{}")] * calls), 1)
    assert rival_exists(tokenizer.encoding, made) is exists


def test_two_altered_places_that_pay_for_each_other_are_seen(tokenizer) -> None:
    """One blank saves a token and another costs one: the sum is the same, the ids are not."""
    encoding = tokenizer.encoding
    saves = next(
        word
        for rank in range(256, encoding.base_size)
        if (word := encoding.decode([rank]).removeprefix(" ")).isalpha()
        and len(encoding.encode_text(" " + word)) < len(encoding.encode_text(word))
    )
    made = answered(Emitted(saves + " 你", "你"), 1)
    assert rival_exists(encoding, made)
