"""Recount the books from their rows. The counters of the datasets must say the same."""

from sqlalchemy import text

from eagle3gen.ledger.connect import Connection

_RECOUNT = text(
    "SELECT d.name, d.spent_tokens, d.held_tokens, d.open_tokens, d.cost_usd, d.unpriced_attempts,"
    " coalesce(sum(CASE WHEN c.attempt_id IS NOT NULL THEN c.completion_tokens"
    "  WHEN r.outcome = 'settled' THEN coalesce(r.completion_tokens, 0) END), 0) AS true_spent_tokens,"
    " coalesce(sum(a.hold_tokens) FILTER (WHERE c.attempt_id IS NULL AND (r.outcome = 'held'"
    "  OR (r.outcome = 'settled' AND r.completion_tokens IS NULL))), 0) AS true_held_tokens,"
    " coalesce(sum(a.hold_tokens) FILTER (WHERE a.id IS NOT NULL AND r.attempt_id IS NULL), 0) AS true_open_tokens,"
    " coalesce(sum(CASE WHEN c.attempt_id IS NOT NULL THEN coalesce(c.cost_usd, 0)"
    "  WHEN r.outcome = 'settled' THEN coalesce(r.cost_usd, 0) END), 0)"
    "  AS true_cost_usd,"
    " count(*) FILTER (WHERE (c.attempt_id IS NOT NULL AND c.cost_usd IS NULL) OR (c.attempt_id IS NULL"
    "  AND r.outcome = 'settled' AND r.cost_usd IS NULL))"
    "  AS true_unpriced_attempts"
    " FROM datasets d LEFT JOIN attempts a ON a.dataset_id = d.id"
    " LEFT JOIN resolutions r ON r.attempt_id = a.id LEFT JOIN corrections c ON c.attempt_id = a.id"
    " GROUP BY d.id ORDER BY d.id"
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
    "a prompt has two open attempts": text(
        "SELECT count(*) FROM (SELECT FROM attempts a WHERE NOT EXISTS (SELECT FROM resolutions r"
        " WHERE r.attempt_id = a.id) GROUP BY a.prompt_id HAVING count(*) > 1) AS doubled"
    ),
}
COUNTERS = ("spent_tokens", "held_tokens", "open_tokens", "cost_usd", "unpriced_attempts")


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
