"""What a call reserves of the caps before it is sent, in Python and in SQL: the two say the same.

*Worst* is the most that it can cost: `max_tokens` at the dearest price that the routing allows, and the prompt at
one token per byte, since no tokenizer makes more tokens than there are bytes. Under `strict` admission the hold is
the worst case. Under `forecast` it is what a call of its kind is expected to cost (`forecast.py`); only a call
whose bill stays unknown counts with its worst case.
"""

from collections.abc import Mapping
from decimal import Decimal

from eagle3gen.ledger.money import EXACT, Amount
from eagle3gen.records import Prices

TEMPLATE_TOKENS = 64
"""What a chat template adds around the prompt, beyond the bytes of its JSON."""

# In terms of a prompt `p` and its dataset `d`.
HOLD_TOKENS = "coalesce(CAST(d.forecast ->> CAST(p.max_tokens AS text) AS integer), p.max_tokens)"
HOLD_USD = (
    f"coalesce(d.prompt_price_usd * (octet_length(p.payload) + {TEMPLATE_TOKENS})"
    f" + d.completion_price_usd * {HOLD_TOKENS} + d.request_price_usd, 0)"
)


def worst(prices: Prices | None, payload_bytes: int, max_tokens: int) -> Amount:
    """The most that a call can cost; in USD 0 while nobody knows a price, and then no cap in USD may exist."""
    if prices is None:
        return Amount(max_tokens)
    prompt = EXACT.multiply(prices.prompt_usd, Decimal(payload_bytes + TEMPLATE_TOKENS))
    completion = EXACT.multiply(prices.completion_usd, Decimal(max_tokens))
    return Amount(max_tokens, EXACT.add(EXACT.add(prompt, completion), prices.request_usd))


def hold(prices: Prices | None, forecast: Mapping[str, int], payload_bytes: int, max_tokens: int) -> Amount:
    """What a call reserves while it is open. `forecast` holds expected tokens by `max_tokens`; empty under strict."""
    return worst(prices, payload_bytes, forecast.get(str(max_tokens), max_tokens))
