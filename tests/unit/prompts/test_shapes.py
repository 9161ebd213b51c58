"""Every shape of row becomes the same thing: the messages up to where the target begins."""

import pytest

from eagle3gen.prompts.shapes import READERS, read_row
from eagle3gen.prompts.turns import ROLES
from eagle3gen.prompts.values import NotAPrompt

USER = {"role": "user", "content": "Why is the sky blue?"}
SYSTEM = {"role": "system", "content": "Be brief."}
ANSWER = {"role": "assistant", "content": "Rayleigh scattering."}


def messages(row: object) -> list[dict[str, str]]:
    return [dict(message) for message in read_row(row, "here").messages]


def refusal(row: object) -> str:
    with pytest.raises(NotAPrompt) as caught:
        read_row(row, "here")
    return str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [USER, ANSWER]},
        {"messages": '[{"role": "user", "content": "Why is the sky blue?"}]'},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Why is the "}, "sky blue?"]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "value": "Why is the sky blue?"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": None, "value": "Why is the sky blue?"}]}]},
        {"conversations": [{"from": "human", "value": "Why is the sky blue?"}, {"from": "gpt", "value": "Air."}]},
        {"conversations": [{"role": "User", "content": "Why is the sky blue?"}]},
        {"conversations": [{"from": "human", "value": "Why is the sky blue?", "content": None}]},
        {"turns": ["Why is the sky blue?", "And at night?"], "category": "physics"},
        {"prompt": "Why is the sky blue?"},
        {"prompt": [USER]},
        {"instruction": "Why is the sky blue?", "input": "", "output": "Air."},
        {"instruction": "", "input": "Why is the sky blue?"},
        {"instruction": "Why is the sky blue?", "input": None, "history": []},
        {"environment": "main", "trajectory": [], "history": [USER, ANSWER], "info": {}},
    ],
)
def test_every_shape_gives_the_question(row) -> None:
    """One question is the same message in every shape."""
    assert messages(row) == [USER]


def test_the_source_of_a_conversation_is_its_place() -> None:
    """A conversation remembers the place that it was read from."""
    assert read_row({"prompt": "x"}, "a.jsonl line 3").source == "a.jsonl line 3"


def test_an_input_stands_below_its_instruction() -> None:
    """Alpaca's input follows its instruction after an empty line."""
    assert messages({"instruction": "Sum up:", "input": "A text."})[0]["content"] == "Sum up:\n\nA text."


def test_what_follows_the_first_answer_is_not_sent() -> None:
    """Only the messages before the first answer are sent."""
    later = [ANSWER, {"role": "user", "content": "And at night?"}, ANSWER]
    assert messages({"messages": [SYSTEM, USER, *later]}) == [SYSTEM, USER]


def test_what_follows_the_first_answer_may_hold_anything() -> None:
    """A picture or an unknown role after the first answer refuses no row."""
    later = [{"role": "user", "content": [{"type": "image_url"}]}, {"role": "critic", "content": 1}, 7]
    assert messages({"messages": [USER, ANSWER, *later]}) == [USER]


def test_a_greeting_before_the_question_is_left_out() -> None:
    """An assistant turn before any question is not taken for the answer."""
    assert messages({"messages": [{"role": "assistant", "content": "Hello!"}, USER, ANSWER]}) == [USER]


def test_two_user_turns_in_a_row_are_both_sent() -> None:
    """Everything a user said before the answer is asked."""
    more = {"role": "user", "content": "Please."}
    assert messages({"messages": [USER, more]}) == [USER, more]


def test_text_is_sent_as_it_is() -> None:
    """Blanks, line ends and scripts of a text are kept."""
    text = "  def f():\r\n\treturn '日本語 🙂'\n\n"
    assert messages({"prompt": text}) == [{"role": "user", "content": text}]


@pytest.mark.parametrize("field", ["system", "system_prompt"])
@pytest.mark.parametrize(
    "row",
    [
        {"messages": [USER]},
        {"conversations": [USER]},
        {"turns": [USER["content"]]},
        {"prompt": USER["content"]},
        {"prompt": [USER]},
        {"instruction": USER["content"]},
        {"history": [USER]},
    ],
    ids=lambda row: next(iter(row)),
)
def test_a_system_field_comes_first_in_every_shape(row, field) -> None:
    """The system text of a row is kept, whatever its shape."""
    assert messages({**row, field: "Be brief."}) == [SYSTEM, USER]


def test_a_system_turn_is_not_doubled() -> None:
    """Messages that begin with a system turn keep it, and the row's system field adds nothing."""
    assert messages({"system": "Be long.", "messages": [SYSTEM, USER]}) == [SYSTEM, USER]


@pytest.mark.parametrize("system", [None, "", []])
def test_an_empty_system_field_is_no_message(system) -> None:
    """An empty system field sends no system message."""
    assert messages({"system": system, "prompt": USER["content"]}) == [USER]


def test_a_system_turn_without_content_is_left_out() -> None:
    """A system turn whose content is null does not refuse the row."""
    assert messages({"messages": [{"role": "system", "content": None}, USER]}) == [USER]


def test_a_system_turn_without_content_gives_way_to_the_field() -> None:
    """The row's system field stands in for a system turn of null."""
    row = {"system": "Be brief.", "messages": [{"role": "system", "content": None}, USER]}
    assert messages(row) == [SYSTEM, USER]


@pytest.mark.parametrize("empty", [{"messages": []}, {"messages": None}, {"messages": "[]"}, {"turns": []}])
def test_an_empty_field_gives_way_to_the_next(empty) -> None:
    """A field that holds nothing does not hide the one that does."""
    assert messages({**empty, "prompt": USER["content"]}) == [USER]


def test_an_empty_prompt_gives_way_to_the_instruction() -> None:
    """A blank prompt does not hide an instruction."""
    assert messages({"prompt": " ", "instruction": USER["content"]}) == [USER]


def test_the_first_question_of_a_history_is_asked() -> None:
    """Alpaca's pairs of question and answer come before the instruction, so their first question is asked."""
    row = {"instruction": "And at night?", "history": [["Why is the sky blue?", "Air."], ["Sure?", "Yes."]]}
    assert messages(row) == [USER]


def test_demonstrations_of_a_trajectory_are_left_out() -> None:
    """SWE-agent's history is read without the turns that are marked as a demonstration."""
    demo = [{"role": "user", "content": "Here is a demonstration.", "is_demo": True}, {**ANSWER, "is_demo": True}]
    assert messages({"history": [SYSTEM, *demo, {**USER, "is_demo": False}, ANSWER]}) == [SYSTEM, USER]


@pytest.mark.parametrize("spelled", [role for role, meant in ROLES.items() if meant == "assistant"])
def test_an_answer_is_known_by_every_name(spelled) -> None:
    """Whatever a set calls its model, its turns are not sent."""
    turns = [{"from": "human", "value": USER["content"]}, {"from": spelled.upper(), "value": "x"}, {"from": "?"}]
    assert messages({"conversations": turns}) == [USER]


@pytest.mark.parametrize(
    "spelled", ["tool", "tool_response", "ipython", "observation", "function", "function_response"]
)
def test_a_tool_result_is_known_by_every_name(spelled) -> None:
    """A tool's result right after the question says that no call stands between them."""
    sentence = refusal({"messages": [USER, {"role": spelled, "content": "21"}]})
    assert sentence == "a tool result follows the question without a call between them"


def test_a_developer_is_the_system() -> None:
    """OpenAI's developer role is sent as system."""
    assert messages({"messages": [{**SYSTEM, "role": "developer"}, USER]}) == [SYSTEM, USER]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ([], "it is a list, not an object"),
        ("x", "it is text, not an object"),
        (None, "it is empty, not an object"),
        (True, "it is a boolean, not an object"),
        (1.5, "it is a number, not an object"),
        ({"text": "x"}, f"none of its fields is one of {', '.join(READERS)} (it has 'text')"),
        ({}, f"none of its fields is one of {', '.join(READERS)} (it has none)"),
        ({"messages": []}, "its messages field is empty"),
        ({"prompt": ""}, "its prompt field is empty"),
        ({"instruction": "", "input": ""}, "its instruction field is empty"),
        ({"messages": "hello"}, "its messages field is text, not a list"),
        ({"messages": {}}, "its messages field is an object, not a list"),
        ({"conversations": 1}, "its conversations field is a number, not a list"),
        ({"turns": [{}]}, "its first turn is an object, not text"),
        ({"prompt": {}}, "its prompt is an object, not text"),
        ({"instruction": 1}, "its instruction is a number, not text"),
        ({"instruction": "x", "input": [1]}, "its input is a list, not text"),
        ({"instruction": "x", "history": [["q"]]}, "its history is not made of pairs of a question and an answer"),
        ({"instruction": "x", "history": [[1, "a"]]}, "a question of its history is a number, not text"),
        ({"messages": ["x"]}, "a message is text, not an object"),
        ({"messages": [{"content": "x"}]}, "a message has no role"),
        ({"messages": [{"role": "critic", "content": "x"}]}, "a message has the unknown role 'critic'"),
        ({"messages": [{"role": "user"}]}, "the content of a user message is empty, not text"),
        ({"messages": [{"role": "user", "content": {}}]}, "the content of a user message is an object, not text"),
        ({"messages": [{"role": "user", "content": [3]}]}, "a user message holds a part that is a number, not text"),
        ({"messages": [{"role": "user", "content": [{}]}]}, "a user message holds a part without a type"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "of type 'image_url'; only text can"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "a text part of a user message is empty"),
        ({"messages": [{"role": "user", "content": " \n"}]}, "it has no user text"),
        ({"messages": [SYSTEM]}, "it has no user text"),
        ({"messages": [ANSWER]}, "it has no user text"),
        ({"messages": [{"role": "tool", "content": "1"}, USER]}, "a tool result stands before any question"),
        ({"prompt": "half \ud83d"}, "it is not UTF-8 text: it holds a foreign byte or half of a character"),
        ({"prompt": "x", "system": 5}, "the content of a system message is a number, not text"),
    ],
)
def test_a_row_that_is_no_prompt_says_why(row, sentence) -> None:
    """Each reason has its own sentence."""
    assert sentence in refusal(row)


def test_a_sentence_stays_short() -> None:
    """A huge value of a user is not repeated whole in a sentence."""
    assert len(refusal({"messages": [{"role": "x" * 100_000, "content": ""}]})) < 100
    assert len(refusal({f"{n}" * 1000: 1 for n in range(1000)})) < 600


def test_a_sentence_can_be_printed() -> None:
    """Half a character in a field's name is shown by its escape."""
    assert "'\\ud83d'" in refusal({"\ud83d": 1})
