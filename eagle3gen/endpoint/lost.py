"""A call without a reply: what went wrong, and whether anything can have been sent."""

from collections.abc import Mapping
from dataclasses import replace

import aiohttp
import httpx

from eagle3gen.endpoint.answer import label
from eagle3gen.endpoint.deadlines import Deadlines
from eagle3gen.endpoint.receiving import FirstByteLate, Stalled, TooLarge
from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import Reply

LOST = (aiohttp.ClientError, OSError)
"""What the transport lets through beside httpx's own errors."""
ENDINGS = (TimeoutError, FirstByteLate, Stalled, TooLarge, ValueError, httpx.HTTPError, httpx.InvalidURL, *LOST)
"""Every way in which a call can end without its reply."""


def explained(error: Exception, deadlines: Deadlines, seconds: float, headers: Mapping[str, str]) -> Reply:
    """The reply that stands for a call which ended with one of `ENDINGS`."""
    refusal = _refusal(error, deadlines, headers)
    refusal = replace(refusal, generation_id=label(headers.get("x-generation-id")))
    return Reply(status=None, body=b"", seconds=seconds, refusal=refusal)


def failed(kind: str, message: str, decision: Decision) -> Reply:
    """A call that was not made."""
    refusal = Refusal(kind=kind, decision=decision, billed=Billed.NO, message=message)
    return Reply(status=None, body=b"", seconds=0.0, refusal=refusal)


def _refusal(error: Exception, deadlines: Deadlines, headers: Mapping[str, str]) -> Refusal:
    if never_connected(error):
        message = f"cannot connect: {reason(error)}"
        return Refusal(
            kind="unreachable", decision=Decision.RETRY, billed=Billed.NO, message=message, blames_prompt=False
        )
    if not headers and isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL | ValueError):
        message = f"nothing can be sent to this address ({reason(error)}): wrong --endpoint-url"
        return Refusal(kind="wrong_url", decision=Decision.PAUSE_DATASET, billed=Billed.NO, message=message)
    kind, message = _word(error, deadlines)
    return Refusal(kind=kind, decision=Decision.RETRY, billed=Billed.MAYBE, message=message)


def _word(error: Exception, deadlines: Deadlines) -> tuple[str, str]:
    match error:
        case FirstByteLate():
            return "first_byte_late", f"no headers within {deadlines.first_byte:g} s"
        case Stalled():
            return "stalled", f"a stream without a word for {deadlines.no_progress:g} s"
        case TimeoutError():
            return "deadline", f"no answer within {deadlines.total:g} s"
        case TooLarge():
            return "too_large", "the reply is larger than any answer"
        case _:
            return "connection_lost", f"the connection was lost: {reason(error)}"


def never_connected(error: BaseException) -> bool:
    """Whether nothing can have been sent.

    httpx's own classes do not say: the transport maps lost connections to
    ConnectTimeout as well, so the cause is looked at.
    """
    return isinstance(error.__cause__ or error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def reason(error: BaseException) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return first[:200] or type(error).__name__
