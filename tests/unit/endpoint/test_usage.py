"""The bill: every digit as it was written, and from the right object."""

from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.endpoint.refusal import Billed, billed_by
from eagle3gen.endpoint.reply import read_reply
from eagle3gen.endpoint.usage import read_usage
from eagle3gen.records import Usage

ANSWER = b'"choices":[{"finish_reason":"stop","message":{"content":"x"}}]'


def cost_of(usage: bytes, *, before: bytes = ANSWER, after: bytes = b'"z":1') -> Decimal | None:
    reply = read_reply(200, {}, b"{" + before + b',"usage":' + usage + b"," + after + b"}")
    assert reply.completion is not None
    return reply.completion.usage.cost_usd


@pytest.mark.parametrize(
    ("written", "digits"),
    [
        (b"0.00045364", "0.00045364"),
        (b"0.1234567890123456789", "0.1234567890123456789"),
        (b"1e-05", "0.00001"),
        (b"9.78E-05", "0.0000978"),
        (b"0.10", "0.10"),
        (b"0", "0"),
        (b"12", "12"),
        (b"123456.000000001", "123456.000000001"),
        (b'"0.01"', "0.01"),
    ],
)
def test_no_digit_of_a_cost_is_lost(written, digits):
    """The decimal that was written, not the nearest binary number."""
    cost = cost_of(b'{"completion_tokens":2,"cost":' + written + b"}")
    assert cost is not None
    assert format(cost, "f") == digits


@given(st.decimals(min_value=0, max_value=10_000, places=12))
def test_any_cost_survives(cost):
    """All decimals of the ledger's precision come through."""
    assert cost_of(b'{"cost":' + format(cost, "f").encode() + b"}") == cost


@pytest.mark.parametrize(
    "written", [b"-0.1", b"null", b'"free"', b'"NaN"', b'"Infinity"', b"[1]", b"true", b"1e9", b"1e-300", b"{}"]
)
def test_what_is_no_cost_is_unknown(written):
    """An odd cost is None, never 0, and never loses the answer."""
    assert cost_of(b'{"cost":' + written + b"}") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"x":{"usage":{"cost":0.9}},' + ANSWER, b'"z":1'),
        (ANSWER, b'"openrouter_metadata":{"usage":{"cost":0.9}}'),
        (ANSWER, b'"object":"usage","more":{"cost":0.9}'),
        (b'"object":"usage","more":{"cost":0.9},' + ANSWER, b'"z":1'),
        (ANSWER.replace(b'"x"', rb'"say \"usage\": {\"cost\":0.9}"'), b'"z":1'),
        (ANSWER, b'"note":"\\"usage\\":{\\"cost\\":0.9}"'),
        (ANSWER, b'"usages":{"cost":0.9},"choice":"usage"'),
    ],
)
def test_the_cost_comes_from_the_bill_and_nothing_else(before, after):
    """Other objects, values and the answer's own text may spell the word."""
    assert cost_of(b'{"cost":0.123456789012345678}', before=before, after=after) == Decimal("0.123456789012345678")


def test_a_bill_under_an_escaped_name_is_found():
    """The only plain "usage" of the body belongs to something else."""
    raw = b'{"m":{"usage":{"cost":0.9}},"us\\u0061ge":{"cost":0.1234567890123456789}}'
    assert read_usage(orjson.loads(raw)["usage"], raw).cost_usd == Decimal("0.1234567890123456789")


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (b'{"cost":0,"is_byok":true,"cost_details":{"upstream_inference_cost":0.0003253}}', "0.0003253"),
        (b'{"cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":0.002}}', "0.012"),
        (b'{"cost":0.01,"is_byok":false,"cost_details":{"upstream_inference_cost":0.01}}', "0.01"),
        (b'{"cost":0.01,"cost_details":{"upstream_inference_cost":0.01}}', "0.01"),
        (b'{"cost":0.01,"is_byok":true,"cost_details":[1]}', "0.01"),
        (b'{"cost":0.01,"is_byok":true,"cost_details":null}', "0.01"),
        (b'{"cost":0.01,"is_byok":true,"cost_details":"none"}', "0.01"),
        (b'{"cost":0.01,"is_byok":true,"cost_details":{"upstream_inference_cost":null}}', "0.01"),
    ],
)
def test_under_byok_the_upstream_is_paid_too(usage, cost):
    """And details of a wrong type lose neither the cost nor the answer."""
    assert cost_of(usage) == Decimal(cost)


@pytest.mark.parametrize("count", [None, -1, 1.5, "7", True, [7], 10**10])
def test_what_is_no_count_is_unknown(count):
    """A count that is no whole number that a row can hold is None."""
    assert read_usage({"completion_tokens": count}, b"{}") == Usage()


@pytest.mark.parametrize("usage", [None, [], "x", 5])
def test_what_is_no_bill_is_unknown(usage):
    """Without an object nothing is known."""
    assert read_usage(usage, b"{}") == Usage()


def test_all_counts_are_read():
    """Details are read where they are objects, and may contradict the total."""
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": 10,
        "completion_tokens_details": {"reasoning_tokens": 11},
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    expected = Usage(prompt_tokens=1, completion_tokens=10, reasoning_tokens=11, cached_tokens=0)
    assert read_usage(usage, b"{}") == expected
    assert read_usage(usage | {"completion_tokens_details": 3}, b"{}").reasoning_tokens is None


@pytest.mark.parametrize("unknown", list(Billed))
def test_only_a_silent_bill_leaves_the_question_open(unknown):
    """Tokens or cost mean billed, zeros mean not, and silence is for the caller to judge."""
    assert billed_by(Usage(), unknown) is unknown
    assert billed_by(Usage(prompt_tokens=5), unknown) is unknown
    assert billed_by(Usage(completion_tokens=1), unknown) is Billed.YES
    assert billed_by(Usage(cost_usd=Decimal("0.1")), unknown) is Billed.YES
    assert billed_by(Usage(completion_tokens=0), unknown) is Billed.NO
    assert billed_by(Usage(completion_tokens=0, cost_usd=Decimal(0)), unknown) is Billed.NO
