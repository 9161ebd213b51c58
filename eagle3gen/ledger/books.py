"""Recount the books from their rows. The counters of the datasets must say the same."""

from sqlalchemy import text

from eagle3gen.ledger.connect import Connection

# A correction says more than the resolution before it. What neither says counts with its worst case.
_KNOWN = (
    "SELECT a.dataset_id, a.hold_tokens, a.hold_usd, a.worst_tokens, a.worst_usd, r.attempt_id IS NULL AS open,"
    " CASE WHEN c.attempt_id IS NOT NULL THEN c.completion_tokens WHEN r.outcome = 'settled' THEN r.completion_tokens"
    "  WHEN r.outcome = 'released' THEN 0 END AS tokens,"
    " CASE WHEN c.attempt_id IS NOT NULL THEN c.cost_usd WHEN r.outcome = 'settled' THEN r.cost_usd"
    "  WHEN r.outcome = 'released' THEN 0 END AS usd,"
    " c.attempt_id IS NOT NULL OR r.outcome = 'settled' AS told"
    " FROM attempts a LEFT JOIN resolutions r ON r.attempt_id = a.id LEFT JOIN corrections c ON c.attempt_id = a.id"
)
_RECOUNT = text(
    "SELECT d.name, d.spent_tokens, d.held_tokens, d.open_tokens, d.cost_usd, d.held_usd, d.open_usd,"
    " d.unpriced_attempts, coalesce(sum(k.tokens), 0) AS true_spent_tokens, coalesce(sum(k.usd), 0) AS true_cost_usd,"
    " coalesce(sum(k.worst_tokens) FILTER (WHERE NOT k.open AND k.tokens IS NULL), 0) AS true_held_tokens,"
    " coalesce(sum(k.worst_usd) FILTER (WHERE NOT k.open AND k.usd IS NULL), 0) AS true_held_usd,"
    " coalesce(sum(k.hold_tokens) FILTER (WHERE k.open), 0) AS true_open_tokens,"
    " coalesce(sum(k.hold_usd) FILTER (WHERE k.open), 0) AS true_open_usd,"
    " count(*) FILTER (WHERE k.told AND k.usd IS NULL) AS true_unpriced_attempts"
    f" FROM datasets d LEFT JOIN ({_KNOWN}) k ON k.dataset_id = d.id GROUP BY d.id ORDER BY d.id"
)
_STRAYS = {
    "a prompt is in flight without an open attempt": text(
        "SELECT count(*) FROM prompts p WHERE p.state = 'in_flight' AND NOT EXISTS (SELECT FROM attempts a"
        " WHERE a.id = p.attempt_id AND NOT EXISTS (SELECT FROM resolutions r WHERE r.attempt_id = a.id))"
    ),
    "an open attempt's prompt is not in flight": text(
        "SELECT count(*) FROM attempts a JOIN prompts p ON p.id = a.prompt_id WHERE p.state <> 'in_flight'"
        " AND NOT EXISTS (SELECT FROM resolutions r WHERE r.attempt_id = a.id)"
    ),
    "a done or rejected prompt has no sample": text(
        "SELECT count(*) FROM prompts p WHERE p.state IN ('done', 'rejected')"
        " AND NOT EXISTS (SELECT FROM samples s WHERE s.prompt_id = p.id)"
    ),
    "a sample belongs to a prompt that is not answered": text(
        "SELECT count(*) FROM samples s JOIN prompts p ON p.id = s.prompt_id WHERE p.state NOT IN ('done', 'rejected')"
    ),
    "a sample's attempt was made for another prompt, or its bill is not on the books": text(
        "SELECT count(*) FROM samples s JOIN attempts a ON a.id = s.attempt_id"
        " LEFT JOIN resolutions r ON r.attempt_id = a.id LEFT JOIN corrections c ON c.attempt_id = a.id"
        " WHERE a.prompt_id <> s.prompt_id OR (c.attempt_id IS NULL AND r.outcome IS DISTINCT FROM 'settled')"
    ),
    "an attempt was billed beyond its worst case: prices rose, or max_tokens was not kept": text(
        f"SELECT count(*) FROM ({_KNOWN}) k"
        " WHERE k.tokens > k.worst_tokens OR (k.worst_usd > 0 AND k.usd > k.worst_usd)"
    ),
    "a prompt has two open attempts": text(
        "SELECT count(*) FROM (SELECT FROM attempts a WHERE NOT EXISTS (SELECT FROM resolutions r"
        " WHERE r.attempt_id = a.id) GROUP BY a.prompt_id HAVING count(*) > 1) AS doubled"
    ),
}
COUNTERS = (
    "spent_tokens",
    "held_tokens",
    "open_tokens",
    "cost_usd",
    "held_usd",
    "open_usd",
    "unpriced_attempts",
)


async def audit_books(conn: Connection) -> list[str]:
    """One sentence per counter that does not equal its rows, and per kind of stray row; empty when all agree."""
    findings = []
    for row in (await conn.execute(_RECOUNT)).mappings():
        findings += [
            f"{row['name']}: {name} says {row[name]} but its rows add up to {row['true_' + name]}"
            for name in COUNTERS
            if row[name] != row["true_" + name]
        ]
    for sentence, query in _STRAYS.items():
        if count := (await conn.execute(query)).scalar_one():
            findings.append(f"{sentence} ({count})")
    return findings
