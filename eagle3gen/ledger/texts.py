"""Text from outside, made fit for a Postgres text column."""

TEXT_CHARS_MAX = 500
"""Names, ids and reasons: nobody reads more, and a hostile one must not fill the ledger."""


def storable(sentence: str) -> str:
    """The sentence without what Postgres cannot hold (NUL, lone surrogates), cut to a readable length."""
    return sentence[:TEXT_CHARS_MAX].replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def storable_or_none(sentence: str | None) -> str | None:
    """The same where the column may be empty."""
    return None if sentence is None else storable(sentence)
