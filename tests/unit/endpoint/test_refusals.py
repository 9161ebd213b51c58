"""Every shape of a refusal: status, body, and what a correct client makes of it."""

import time

import orjson
import pytest

from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import read_reply
from eagle3gen.endpoint.rules import CONFIG_CODES, STATUS_OF_WORD

RETRY, FAIL = Decision.RETRY, Decision.FAIL_PROMPT
PAUSE, KEY = Decision.PAUSE_DATASET, Decision.PAUSE_KEY
NO, YES, MAYBE = Billed.NO, Billed.YES, Billed.MAYBE


def error(code=None, message="it failed", **rest):
    inside = {"message": message, **rest}
    if code is not None:
        inside["code"] = code
    return {"error": inside, "user_id": "user_x"}


def refused(status, body, headers=None) -> Refusal:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    reply = read_reply(status, headers or {}, raw)
    assert reply.completion is None
    assert reply.refusal is not None
    return reply.refusal


SHAPES = [
    # (what it is, status, body, kind, decision, billed, outcome)
    ("bad parameter", 400, error(400, "temperature must be <= 2"), "invalid_request", FAIL, NO, "permanent_prompt"),
    ("model id", 400, error(400, "a/b is not a valid model ID"), "unknown_model", PAUSE, NO, "permanent_config"),
    (
        "context",
        400,
        error(400, "This endpoint's maximum context length is 8192 tokens. However, you requested about 9001"),
        "invalid_request",
        FAIL,
        NO,
        "permanent_prompt",
    ),
    ("host's 400", 400, error(400, "Provider returned error"), "host_refused", RETRY, NO, "transient"),
    ("no key", 401, error(401, "No auth credentials found"), "key_refused", KEY, NO, "fatal_key"),
    ("no credit", 402, error(402, "Insufficient credits"), "out_of_credit", KEY, NO, "budget"),
    (
        "cannot afford",
        402,
        error(402, "requires more credits, or fewer max_tokens", metadata={"provider_name": None}),
        "out_of_credit",
        KEY,
        NO,
        "budget",
    ),
    ("key limit", 403, error(403, "Key limit exceeded (total limit)"), "out_of_credit", KEY, NO, "budget"),
    (
        "moderation",
        403,
        error(403, 'flagged for "misc". No credits were charged.', metadata={"flagged_input": "secret words"}),
        "forbidden",
        FAIL,
        NO,
        "permanent_prompt",
    ),
    (
        "region",
        403,
        error(403, "This model is not available in your region."),
        "region_restricted",
        PAUSE,
        NO,
        "permanent_config",
    ),
    ("no endpoints", 404, error(404, "No endpoints found for a/b."), "no_endpoint", PAUSE, NO, "permanent_config"),
    ("method", 405, error(405), "wrong_endpoint", PAUSE, NO, "permanent_config"),
    ("timeout", 408, error(408), "timeout", RETRY, MAYBE, "transient"),
    ("gateway timeout", 504, error(504), "timeout", RETRY, MAYBE, "transient"),
    ("edge timeout", 524, error(524), "timeout", RETRY, MAYBE, "transient"),
    ("too large", 413, error(413), "too_large", FAIL, NO, "permanent_prompt"),
    ("unprocessable", 422, error(422), "unprocessable", FAIL, NO, "permanent_prompt"),
    ("unknown 4xx", 418, error(418), "refused", FAIL, NO, "permanent_prompt"),
    ("limit", 429, error(429), "rate_limited", RETRY, NO, "rate_limited"),
    ("server error", 500, error(500), "server_error", RETRY, NO, "transient"),
    ("host down", 502, error(502), "host_failed", RETRY, NO, "transient"),
    ("no host", 503, error(503), "unavailable", RETRY, NO, "transient"),
    ("overloaded", 529, error(529), "overloaded", RETRY, NO, "transient"),
    ("unknown 5xx", 599, error(599), "server_error", RETRY, MAYBE, "transient"),
    ("429 inside 200", 200, {"choices": None, **error(429)}, "rate_limited", RETRY, NO, "rate_limited"),
    ("502 beside no choices", 200, {"choices": [], **error(502)}, "host_failed", RETRY, MAYBE, "transient"),
    (
        "raw object",
        200,
        error(502, metadata={"raw": {"code": 400}, "provider_name": "H"}),
        "host_failed",
        RETRY,
        MAYBE,
        "transient",
    ),
    ("bare object", 200, {"message": "Upstream error", "code": 502}, "host_failed", RETRY, MAYBE, "transient"),
    (
        "bare vLLM object",
        400,
        {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400},
        "invalid_request",
        FAIL,
        NO,
        "permanent_prompt",
    ),
    ("detail", 404, {"detail": "Not Found"}, "no_endpoint", PAUSE, NO, "permanent_config"),
    ("string", 200, {"error": "boom"}, "server_error", RETRY, MAYBE, "transient"),
    ("string at 401", 401, {"error": "boom"}, "key_refused", KEY, NO, "fatal_key"),
    ("list", 200, {"error": [1]}, "server_error", RETRY, MAYBE, "transient"),
    ("{} at 401", 401, {}, "key_refused", KEY, NO, "fatal_key"),
    (
        "choice error",
        200,
        {
            "choices": [
                {"finish_reason": "error", "error": {"code": 502, "message": "m"}, "message": {"content": "par"}}
            ]
        },
        "host_failed",
        RETRY,
        MAYBE,
        "transient",
    ),
    (
        "typed, no code",
        404,
        error(http_status=404, error_type="not_found"),
        "no_endpoint",
        PAUSE,
        NO,
        "permanent_config",
    ),
    ("float code", 200, error(429.0), "rate_limited", RETRY, NO, "rate_limited"),
    ("text code", 200, error("429"), "rate_limited", RETRY, NO, "rate_limited"),
    ("odd digit", 200, error("²"), "server_error", RETRY, MAYBE, "transient"),
    ("odd digits at 429", 429, error("٤٢٩"), "rate_limited", RETRY, NO, "rate_limited"),
    ("huge code", 200, error(10**19), "server_error", RETRY, MAYBE, "transient"),
    ("boolean code", 503, error(code=True), "unavailable", RETRY, NO, "transient"),
    ("quota at 429", 429, error("insufficient_quota"), "out_of_credit", KEY, NO, "budget"),
    ("302", 302, b"", "redirected", PAUSE, NO, "permanent_config"),
    ("308 with JSON", 308, {"choices": []}, "redirected", PAUSE, NO, "permanent_config"),
    ("1015 in 200", 200, b"error code: 1015", "edge_limited", RETRY, NO, "transient"),
    ("1015 in 429", 429, b"error code: 1015", "edge_limited", RETRY, NO, "transient"),
    ("1020 in 200", 200, b"error code: 1020", "network_page", RETRY, NO, "transient"),
    ("521 in 200", 200, b"error code: 521", "network_page", RETRY, NO, "transient"),
    ("524 in 200", 200, b"error code: 524", "network_page", RETRY, MAYBE, "transient"),
    ("page in 200", 200, b"<!DOCTYPE html>", "network_page", RETRY, MAYBE, "transient"),
    ("page 413", 413, b"<html>too large</html>", "too_large", FAIL, NO, "permanent_prompt"),
    ("page 502", 502, b"<html>", "network_page", RETRY, NO, "transient"),
    ("page 524", 524, b"<html>", "network_page", RETRY, MAYBE, "transient"),
    ("page 408", 408, b"<html>", "network_page", RETRY, MAYBE, "transient"),
    *[
        (f"page {s}", s, b"<html>Just a moment", "network_page", RETRY, NO, "transient")
        for s in (400, 401, 402, 403, 404, 405)
    ],
    ("empty 401", 401, b"", "network_page", RETRY, NO, "transient"),
    ("pulses only", 200, b"\n         \n" * 3, "cut_off", RETRY, MAYBE, "transient"),
    ("cut JSON", 200, b'{"id":"gen-1","choices":[{"mess', "cut_off", RETRY, MAYBE, "transient"),
    ("no content", 204, b"", "cut_off", RETRY, MAYBE, "transient"),
    ("JSON list", 200, b"[1]", "cut_off", RETRY, MAYBE, "transient"),
    ("no choices", 200, {"id": "g"}, "no_choices", RETRY, MAYBE, "defective"),
    ("no message", 200, {"choices": [{"finish_reason": "stop"}]}, "no_message", RETRY, MAYBE, "defective"),
]


@pytest.mark.parametrize(
    ("status", "body", "kind", "decision", "billed", "outcome"), [s[1:] for s in SHAPES], ids=[s[0] for s in SHAPES]
)
def test_a_refusal_is_read_for_what_it_is(status, body, kind, decision, billed, outcome):
    """Kind, decision, bill and outcome follow from status and body."""
    refusal = refused(status, body)
    assert (refusal.kind, refusal.decision, refusal.billed, refusal.outcome) == (kind, decision, billed, outcome)


@pytest.mark.parametrize("status", [429, 503, 529])
def test_an_outage_does_not_blame_the_prompt(status):
    """Limits and outages would have met any prompt."""
    assert not refused(status, error(status)).blames_prompt


@pytest.mark.parametrize("status", [401, 402, 404, 405, 429, 502, 503, 521])
def test_a_page_of_the_network_does_not_blame_the_prompt(status):
    """What no endpoint wrote says nothing about the prompt, and is not asked again for a while."""
    refusal = refused(status, b"<html>")
    assert not refusal.blames_prompt
    assert refusal.retry_after_seconds == 60.0


@pytest.mark.parametrize("status", [400, 403])
def test_a_firewall_may_dislike_the_text(status):
    """A 400 or 403 page may be about this very text, so such tries are counted."""
    assert refused(status, b"<html>").blames_prompt


@pytest.mark.parametrize("status", [400, 500, 502, 504])
def test_other_faults_count_against_the_prompt(status):
    """A fault that the prompt may have caused is counted."""
    assert refused(status, error(status)).blames_prompt


@pytest.mark.parametrize("code", sorted(CONFIG_CODES))
@pytest.mark.parametrize("status", [200, 400, 403, 404, 503])
def test_a_fault_of_the_configuration_pauses_the_dataset(code, status):
    """Availability codes that every prompt would meet pause the dataset, whatever the status."""
    refusal = refused(status, error(http_status=status, availability={"code": code}))
    assert (refusal.kind, refusal.outcome) == (code, "permanent_config")


@pytest.mark.parametrize(
    ("status", "availability", "decision"),
    [
        (404, {"code": "no_endpoints", "retryable": True}, RETRY),
        (404, {"code": "model_unavailable_upstream", "retryable": True}, RETRY),
        (429, {"code": "capacity_exhausted"}, RETRY),
        (503, {"code": "temporarily_unavailable", "retryable": False}, PAUSE),
        (400, {"code": "other", "retryable": False}, FAIL),
        (401, {"code": "other", "retryable": True}, KEY),
        (404, {"code": ["no_endpoints"], "retryable": "yes"}, PAUSE),
    ],
)
def test_the_endpoints_own_word_on_retrying_is_heeded(status, availability, decision):
    """`retryable` decides between trying again and pausing, but never over a bad key."""
    assert refused(status, error(status, availability=availability)).decision is decision


def test_a_retryable_availability_fault_does_not_blame_the_prompt():
    """A model that is away for a while was not driven away by a prompt."""
    body = error(404, availability={"code": "no_endpoints", "retryable": True})
    assert not refused(404, body).blames_prompt


@pytest.mark.parametrize(("word", "status"), sorted(STATUS_OF_WORD.items()))
@pytest.mark.parametrize("where", ["code", "error_type", "type", "metadata"])
def test_a_word_stands_for_its_status(word, status, where):
    """Errors typed by a word instead of a number mean the same."""
    inside = {"metadata": {"error_type": word}} if where == "metadata" else {where: word}
    typed, numbered = refused(200, {"error": {"message": "m", **inside}}), refused(200, error(status))
    assert (typed.kind, typed.decision, typed.billed) == (numbered.kind, numbered.decision, numbered.billed)


WAITS = [
    (error(429), {"Retry-After": "7"}, 7.0),
    (error(429), {"retry-after": "0"}, 0.0),
    (error(429), {"Retry-After": "-4"}, 0.0),
    (error(429), {"Retry-After": "9999"}, 9999.0),
    (error(429), {"Retry-After": "inf"}, 86_400.0),
    (error(429), {"Retry-After": "nan"}, None),
    (error(429), {"Retry-After": "soon"}, None),
    (error(429), {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}, 86_400.0),
    (error(429), {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    (error(429), {"X-RateLimit-Reset": "99999999999999"}, 86_400.0),
    (error(429), {"X-RateLimit-Reset": "never"}, None),
    (error(429), {}, None),
    (error(429, metadata={"retry_after_seconds": "12"}), {}, 12.0),
    (error(429, metadata={"retry_after_seconds": 12.5}), {"Retry-After": "3"}, 12.5),
    (error(429, metadata={"retry_after_seconds": 1e9}), {}, 86_400.0),
    (error(429, metadata={"retry_after_seconds": [1]}), {"Retry-After": "3"}, 3.0),
    (error(429, metadata={"headers": {"Retry-After": 21}}), {}, 21.0),
    (error(429, metadata={"headers": {"RETRY-AFTER": "21"}}), {"Retry-After": "3"}, 21.0),
    (error(429, metadata={"headers": {"X-RateLimit-Reset": "99999999999999"}}), {}, 86_400.0),
    (error(429, metadata={"headers": "none"}), {}, None),
    (error(429, availability={"retry_after": "40"}), {}, 40.0),
    (error(429, availability={"retry_after": True}), {}, None),
    (b"error code: 1015", {"Retry-After": "30"}, 30.0),
]


@pytest.mark.parametrize(("body", "headers", "seconds"), WAITS)
def test_the_wait_that_is_asked_for_is_read_and_bounded(body, headers, seconds):
    """Retry-After in all its places, never more than a day."""
    assert refused(429, body, headers).retry_after_seconds == seconds


def test_a_reset_in_milliseconds_becomes_a_wait():
    """X-RateLimit-Reset counts milliseconds since 1970."""
    reset = str(int((time.time() + 100) * 1000))
    assert refused(429, error(429), {"X-RateLimit-Reset": reset}).retry_after_seconds == pytest.approx(100, abs=2)


def test_the_generation_id_comes_from_the_header_if_the_body_is_cut():
    """A reply cut off can still be looked up."""
    assert refused(200, b"\n   \n", {"X-Generation-Id": "gen-7"}).generation_id == "gen-7"


def test_the_host_is_named():
    """The host behind a wrapped error is known."""
    assert refused(429, error(429, metadata={"provider_name": "Chutes"})).host == "Chutes"


HOST = "Provider returned error"
OF_HOSTS = [
    # (what the host did, code, metadata, kind, decision, outcome)
    ("limits", 429, {"raw": "busy, retry shortly", "provider_name": "H"}, "host_limited", RETRY, "transient"),
    ("limits in an object", 429, {"raw": {"error": {"message": "busy"}}}, "host_limited", RETRY, "transient"),
    ("limits as JSON", 429, {"raw": '{"message":"busy"}'}, "host_limited", RETRY, "transient"),
    ("limits all", 429, {"limit_source": "upstream_provider_shared_pool"}, "host_limited", RETRY, "transient"),
    ("refuses", 400, {"raw": "unknown field"}, "host_refused", RETRY, "transient"),
    ("refuses the router's key", 401, {"raw": "bad key"}, "host_refused", RETRY, "transient"),
    ("wants the router's money", 402, {"raw": "pay"}, "host_refused", RETRY, "transient"),
    ("forbids", 403, {"raw": "no"}, "host_refused", RETRY, "transient"),
    ("lost the model", 404, {"raw": "no such model"}, "host_refused", RETRY, "transient"),
    (
        "finds it too long",
        400,
        {"raw": "maximum context length is 8"},
        "too_long",
        FAIL,
        "permanent_prompt",
    ),
    ("says it is too long", 502, {"raw": {"message": "prompt is too long"}}, "too_long", FAIL, "permanent_prompt"),
    ("is down", 503, {"raw": ""}, "unavailable", RETRY, "transient"),
    ("is overloaded", 529, {"raw": "later"}, "overloaded", RETRY, "transient"),
    ("took too long", 504, {"raw": "<html>"}, "timeout", RETRY, "transient"),
    ("is odd", 502, {"raw": [1, {"a": 2}]}, "host_failed", RETRY, "transient"),
]


@pytest.mark.parametrize(("code", "metadata", "kind", "decision", "outcome"), [row[1:] for row in OF_HOSTS])
@pytest.mark.parametrize("inside", [True, False])
def test_a_hosts_own_error_is_not_ours(code, metadata, kind, decision, outcome, inside):
    """Another host may take the prompt: neither key nor dataset pauses for it."""
    refusal = refused(200 if inside else code, error(code, HOST, metadata=metadata))
    assert (refusal.kind, refusal.decision, refusal.outcome) == (kind, decision, outcome)


@pytest.mark.parametrize("code", [429, 502])
def test_a_host_is_quoted(code):
    """Its own words say more than the router's."""
    body = error(code, HOST, metadata={"raw": '{"error":{"message":"pool is empty"}}'})
    assert refused(code, body).message == f"{code}: {HOST}: pool is empty"


@pytest.mark.parametrize("code", [400, 403, 422])
def test_a_host_that_may_quote_the_prompt_is_not(code):
    """Errors on the request repeat it."""
    assert "SECRET" not in repr(refused(code, error(code, HOST, metadata={"raw": "cannot read SECRET"})))


def test_the_hosts_to_choose_from_are_shown():
    """What was asked for and what there is tell how to mend the routing."""
    metadata = {"available_providers": ["chutes", "novita"], "requested_providers": ["openai"]}
    message = refused(404, error(404, "No allowed providers", metadata=metadata)).message
    assert message == "404: No allowed providers (asked for: openai; there are: chutes, novita)"


@pytest.mark.parametrize(
    ("code", "kind"), [("capacity_exhausted", "rate_limited"), ("temporarily_unavailable", "unavailable")]
)
def test_an_availability_code_alone_says_enough(code, kind):
    """These errors have no code of their own."""
    assert refused(200, error(availability={"code": code})).kind == kind


@pytest.mark.parametrize("body", [{"data": {"id": "gen-1"}}, {"data": [{"id": "a/b"}]}])
def test_a_record_of_another_endpoint_is_no_answer(body):
    """The address is wrong; nothing was asked of a model."""
    refusal = refused(200, body)
    assert (refusal.kind, refusal.decision, refusal.billed) == ("wrong_endpoint", PAUSE, NO)


@pytest.mark.parametrize(
    ("reset", "seconds"), [("1000000060000", 60.0), ("1000000060", 60.0), ("60", 60.0), ("999999999000", 0.0)]
)
def test_a_reset_is_read_in_every_unit(reset, seconds):
    """Milliseconds or seconds since 1970, or seconds from now."""
    reply = read_reply(429, {"X-RateLimit-Reset": reset}, orjson.dumps(error(429)), now=1e9)
    assert reply.refusal is not None
    assert reply.refusal.retry_after_seconds == seconds


def test_a_daily_limit_is_waited_for():
    """The reset of a daily limit is hours away, and every try before it is refused."""
    body = error(429, "free-models-per-day", metadata={"headers": {"X-RateLimit-Reset": "1000036000000"}})
    reply = read_reply(200, {}, orjson.dumps(body), now=1e9)
    assert reply.refusal is not None
    assert (reply.outcome, reply.refusal.retry_after_seconds) == ("rate_limited", 36_000.0)


def test_only_what_is_tried_again_has_a_wait():
    """A pause is for the operator to end."""
    assert refused(402, error(402), {"Retry-After": "7"}).retry_after_seconds is None


@pytest.mark.parametrize(
    ("status", "body", "limited"),
    [
        (429, error(429), True),
        (429, error(429, "Provider returned error"), True),
        (200, b"error code: 1015", True),
        (529, error(529), True),
        (503, error(503), False),
        (502, error(502), False),
        (402, error(402), False),
    ],
)
def test_a_limit_is_told_from_a_failure(status, body, limited):
    """Only a limit asks for fewer calls at a time."""
    assert refused(status, body).is_limit is limited


def test_a_field_that_is_not_known_pauses_the_dataset():
    """Every prompt would meet it."""
    assert refused(400, error(400, "Unrecognized key(s) in object: 'onyl'")).outcome == "permanent_config"


def test_a_byte_order_mark_is_no_text():
    """JSON with a mark in front is JSON."""
    assert refused(429, b"\xef\xbb\xbf" + orjson.dumps(error(429))).kind == "rate_limited"


def test_a_cut_answer_is_not_quoted():
    """What was cut off may be the text of an answer."""
    assert "SECRET" not in refused(200, b'{"choices":[{"message":{"content":"SECRET').message


def test_a_flagged_input_is_not_repeated():
    """Neither moderation metadata nor the input in validation errors reaches a message."""
    moderated = refused(403, error(403, "flagged", metadata={"flagged_input": "SECRET"}))
    invalid = refused(422, {"detail": [{"msg": "Field required", "loc": ["body"], "input": "SECRET"}]})
    assert "SECRET" not in repr(moderated) + repr(invalid)
    assert "Field required" in invalid.message


def test_a_message_is_one_printable_line():
    """Control characters, halves of characters and lengths that no row takes are gone."""
    body = b'{"error":{"code":500,"message":"a\\u0000b\\nc\\ud800' + b"x" * 5000 + b'"}}'
    message = refused(500, body).message
    assert message.isprintable()
    assert len(message) < 400


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        (None, MAYBE),
        ({"completion_tokens": 10}, YES),
        ({"completion_tokens": 10, "cost": 0}, NO),
        ({"completion_tokens": 10, "cost": 0.01}, YES),
        ({"completion_tokens": 0, "cost": 0.01}, YES),
        ({"completion_tokens": 0}, NO),
        ({"cost": 0}, NO),
    ],
)
def test_an_error_is_billed_as_its_usage_says(usage, billed):
    """A failed call costs only what its bill says: 0 USD is the zero-completion insurance."""
    assert refused(200, {**error(502), "usage": usage}).billed is billed


@pytest.mark.parametrize("cost", ["1e999", "NaN", "-Infinity"])
def test_a_number_that_is_none_does_not_throw_away_a_paid_answer(cost) -> None:
    """Its cost is unknown, and the rest is as it was."""
    body = b'{"choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"completion_tokens":2,"cost":%s}}'
    completion = read_reply(200, {}, body % cost.encode()).completion
    assert (completion.content, completion.usage.completion_tokens, completion.usage.cost_usd) == ("a", 2, None)
