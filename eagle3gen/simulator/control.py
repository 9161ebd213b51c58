"""The simulator's own addresses: its bill, a payment into the account, and its knobs while it runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from eagle3gen.simulator.books import Books
from eagle3gen.simulator.knobs import BadKnob, changed, read_usd
from eagle3gen.simulator.options import KNOBS
from eagle3gen.simulator.refusals import BadRequest, Refused


def control(books: Books, method: str, path: str, body: bytes) -> Mapping[str, Any]:
    """The JSON of one of the simulator's own addresses. Raises Refused (400, 404)."""
    if (method, path) == ("GET", "/bill"):
        return books.bill.as_json()
    try:
        told = orjson.loads(body) if body else {}
        if (method, path) == ("POST", "/credits"):
            return _pay_in(books, told)
        if (method, path) == ("POST", "/knobs"):
            values = changed(KNOBS, told)
            books.options = replace(books.options, **values)
            books.limits.turned = books.limits.clock()
            return {"changed": sorted(told)}
    except (BadKnob, orjson.JSONDecodeError) as error:
        raise BadRequest(str(error)) from error
    raise Refused(404, f"no such path: {path}")


def _pay_in(books: Books, told: Any) -> Mapping[str, Any]:
    if not isinstance(told, dict) or told.keys() != {"add"}:
        raise BadKnob('a payment is written as {"add": "5.00"}')
    if books.options.credits is None:
        raise BadKnob("the account has credits without end; give it some with --credits first")
    books.account.added += read_usd(told["add"])
    return {"total_credits": books.account.credits(books.options), "total_usage": books.account.used}
