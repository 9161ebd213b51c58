"""Credits and limits: what a call may cost, before it is made."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.account import Account, affordable
from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.options import Options
from eagle3gen.simulator.refusals import Refused

CHEAPEST = HOSTS[2]
ANY = Options(tokenizer=Path())


@pytest.fixture
def options(tmp_path):
    """Options with some money: `options(credits="0.01")`."""
    return lambda **money: Options(
        tokenizer=tmp_path, **{name: Decimal(told) if isinstance(told, str) else told for name, told in money.items()}
    )


def check(options: Options, account: Account | None = None, limit: int = 1000, prompt: int = 0) -> Refused | None:
    account = account or Account()
    try:
        account.check(account.key("k"), options, HOSTS, prompt, limit)
    except Refused as refused:
        return refused
    return None


def test_without_credits_and_limits_everything_may_be_asked(options) -> None:
    assert check(options(), limit=10**9) is None


def test_a_call_that_could_cost_more_than_there_is_is_refused_with_what_it_could_afford(options) -> None:
    refused = check(options(credits="0.01"), limit=32_000)
    assert refused.code == 402
    assert str(refused).startswith(
        "This request requires more credits, or fewer max_tokens. "
        "You requested up to 32000 tokens, but can only afford 5000. To increase, visit"
    )
    assert refused.metadata == {"provider_name": None}
    assert check(options(credits="0.01"), limit=5000) is None


def test_the_prompt_is_paid_first(options) -> None:
    """10,000 tokens at 0.44 leave 0.0056 for completion tokens at 2.00."""
    assert "only afford 2800." in str(check(options(credits="0.01"), limit=5000, prompt=10_000))
    assert "only afford 0." in str(check(options(credits="0.01"), limit=5000, prompt=10**6))


@pytest.mark.parametrize("used", ["1", "1.5"])
def test_an_account_without_credits_is_told_so_also_when_it_is_below_zero(options, used) -> None:
    account = Account()
    account.charge(account.key("k"), ANY, Decimal(used), Decimal(0))
    refused = check(options(credits="1"), account, limit=1)
    assert (refused.code, str(refused).split(".")[0]) == (402, "Insufficient credits")


def test_a_payment_helps(options) -> None:
    account = Account()
    account.charge(account.key("k"), ANY, Decimal(1), Decimal(0))
    account.added += Decimal("0.5")
    assert check(options(credits="1"), account) is None
    assert account.credits(options(credits="1")) == Decimal("1.5")


def test_a_key_at_its_limit_is_forbidden(options) -> None:
    account = Account()
    account.charge(account.key("k"), ANY, Decimal(2), Decimal(0))
    refused = check(options(key_limit="2"), account)
    assert refused.code == 403
    assert str(refused).startswith("Key limit exceeded")


def test_a_key_near_its_limit_can_afford_less(options) -> None:
    refused = check(options(key_limit="0.01"), limit=5001)
    assert refused.code == 402
    assert "only afford 5000." in str(refused)
    assert "create a key with a higher total limit" in str(refused)


def test_each_key_has_its_own_limit_and_all_share_the_credits(options) -> None:
    account = Account()
    account.charge(account.key("other"), ANY, Decimal(2), Decimal(0))
    assert check(options(key_limit="2"), account) is None
    assert check(options(credits="2"), account).code == 402


def test_a_limit_that_is_reset_begins_anew(options) -> None:
    now = 1000.0
    account, daily = Account(clock=lambda: now), options(key_limit="2", key_limit_reset_seconds=10.0)
    key = account.key("k")
    account.charge(key, daily, Decimal(2), Decimal(0))
    assert check(daily, account).code == 403
    now += 10
    assert check(daily, account) is None
    assert account.limit_left(key, daily) == Decimal(2)
    assert key.usage == Decimal(2)


def test_a_call_that_ends_after_the_reset_counts_against_the_new_limit(options) -> None:
    now = 0.0
    account, daily = Account(clock=lambda: now), options(key_limit="2", key_limit_reset_seconds=10.0)
    assert check(daily, account) is None
    now += 11
    account.charge(account.key("k"), daily, Decimal(2), Decimal(0))
    assert check(daily, account).code == 403


def test_the_clients_own_key_at_a_host_needs_credits_for_no_more_than_a_fee(options) -> None:
    assert check(options(credits="0.01", byok=True), limit=10**6) is None
    assert check(options(credits="0", byok=True)).code == 402


@pytest.mark.parametrize("secret", ["", "short", "sk-or-v1-" + "0123456789abcdef" * 4])
def test_a_label_does_not_give_the_key_away(secret) -> None:
    account = Account()
    label = account.key(secret).label
    assert account.key(secret) is account.keys[label]
    assert len(secret) < 6 or secret not in label
    assert len(label) < 20


def test_other_keys_have_other_labels() -> None:
    account = Account()
    assert (
        len({account.key(secret).label for secret in ("a", "b", "sk-or-v1-" + "1" * 64, "sk-or-v1-" + "2" * 64)}) == 4
    )


amounts = st.decimals(min_value=0, max_value=100, places=8)


@given(amounts, st.integers(0, 10**6), st.integers(1, 10**6))
def test_what_can_be_afforded_can_be_paid_and_not_one_token_more(amount, prompt, limit) -> None:
    most = affordable(amount, HOSTS, prompt, limit)
    if most:
        assert min(host.price(prompt, most).total for host in HOSTS) <= amount
    if most < limit:
        assert all(host.price(prompt, most + 1).total > amount for host in HOSTS)


@given(amounts, st.integers(1, 10**6))
def test_the_sentence_names_the_numbers(amount, limit) -> None:
    account, options = Account(), Options(tokenizer=Path(), credits=amount)
    refused = check(options, account, limit=limit)
    if refused is not None and amount > 0:
        told = re.search(r"up to (\d+) tokens, but can only afford (\d+)\.", str(refused))
        assert int(told[1]) == limit > int(told[2]) == int(amount * 10**6 // CHEAPEST.completion_usd_per_million)


def test_usage_is_told_by_day() -> None:
    import datetime as dt

    account = Account()
    key = account.key("k")
    account.charge(key, ANY, Decimal("0.1"), Decimal("0.7"))
    today = dt.datetime.now(dt.UTC).date()
    key.days[today - dt.timedelta(days=40)] = Decimal(5)
    assert (key.usage, key.since(today), key.byok) == (Decimal("5.1"), Decimal("0.1"), Decimal("0.7"))
