"""`eagle3gen explain`: the words that the client has for a stored body."""

import json

import pytest
from click.testing import CliRunner

from eagle3gen.cli import cli
from eagle3gen.errors import InputError

KEYS = [
    "outcome",
    "retry",
    "retry_after_s",
    "billed",
    "finish_reason",
    "host",
    "completion_tokens",
    "cost_usd",
    "reasoning_chars",
    "content_chars",
    "tool_calls",
    "message",
]


def choice(finish="stop", **message):
    return {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}


def answer(finish="stop", **message):
    fields = {"content": " yes", "reasoning": " because", **message}
    usage = {"prompt_tokens": 5, "completion_tokens": 9, "cost": 0.00012}
    return json.dumps({"id": "gen-1", "provider": "Chutes", "choices": [choice(finish, **fields)], "usage": usage})


def explained(body, *options):
    result = CliRunner().invoke(cli, ["explain", "-", "--json", *options], input=body)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_an_answer_is_explained_in_all_its_fields():
    """The keys are stable, and money is a string."""
    assert explained(answer()) == {
        "outcome": "success",
        "retry": False,
        "retry_after_s": None,
        "billed": "yes",
        "finish_reason": "stop",
        "host": "Chutes",
        "completion_tokens": 9,
        "cost_usd": "0.00012",
        "reasoning_chars": 8,
        "content_chars": 4,
        "tool_calls": 0,
        "message": "a whole answer",
    }


@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        (answer("length"), (), {"outcome": "truncated", "retry": False, "billed": "yes"}),
        (answer(content=""), (), {"outcome": "defective", "retry": True, "billed": "yes", "reasoning_chars": 8}),
        (answer(content=""), (), {"finish_reason": "stop", "content_chars": 0, "cost_usd": "0.00012"}),
        ('{"error":{"code":429,"message":"slow down","metadata":{"retry_after_seconds":7}}}', ("--status", "429"),
         {"outcome": "rate_limited", "retry": True, "retry_after_s": 7.0, "billed": "no", "cost_usd": None}),
        ('{"error":{"code":402,"message":"Insufficient credits"}}', ("--status", "402"),
         {"outcome": "budget", "retry": False, "retry_after_s": None, "billed": "no"}),
        ('{"error":{"code":401,"message":"User not found"}}', ("--status", "401"), {"outcome": "fatal_key"}),
        ('{"error":{"code":404,"message":"No endpoints found"}}', ("--status", "404"), {"outcome": "permanent_config"}),
        ('{"error":{"code":403,"message":"flagged"}}', ("--status", "403"), {"outcome": "permanent_prompt"}),
        ("<html>bad gateway</html>", ("--status", "502", "--content-type", "text/html"), {"outcome": "transient"}),
        ("\n      \n", (), {"outcome": "transient", "retry": True, "billed": "maybe", "finish_reason": None}),
        ("", (), {"outcome": "transient", "billed": "maybe"}),
    ],
)  # fmt: skip
def test_every_outcome_has_its_word(body, options, expected):
    """Outcome, decision and bill of each kind of reply."""
    found = explained(body, *options)
    assert list(found) == KEYS
    assert expected.items() <= found.items()


def test_a_stream_is_recognised_by_itself():
    """No content type is needed."""
    delta = {"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    body = f": OPENROUTER PROCESSING\n\ndata: {json.dumps({'id': 'gen-1', 'choices': [delta]})}\n\ndata: [DONE]\n\n"
    found = explained(body)
    assert (found["outcome"], found["content_chars"]) == ("success", 2)


def test_with_a_tokenizer_the_ids_are_judged(tmp_path):
    """Their count and verdict are added; the prompt is not needed."""
    file = tmp_path / "body.json"
    file.write_text(answer())
    result = CliRunner().invoke(cli, ["explain", str(file), "--json", "--tokenizer", "builtin:kimi-mini"])
    found = json.loads(result.stdout)
    assert list(found) == [*KEYS, "verdict", "output_ids", "difference", "reason"]
    assert found["output_ids"] > 0
    assert found["difference"] == 9 - found["output_ids"]


def test_people_get_a_line_for_each_field():
    """Unknown values are dashes."""
    result = CliRunner().invoke(cli, ["explain", "-"], input="{}")
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert list(lines) == KEYS
    assert (lines["outcome"], lines["retry"], lines["host"]) == ("defective", "yes", "-")


def test_a_file_that_is_not_there_is_one_sentence():
    """What, where, and what to do."""
    result = CliRunner().invoke(cli, ["explain", "no/such/file"])
    assert isinstance(result.exception, InputError)
    assert "no/such/file" in str(result.exception)
