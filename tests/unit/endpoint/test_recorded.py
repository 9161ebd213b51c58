"""Replies that real users received, read as the notes beside them say. Skipped where they are not at hand."""

import json
import os
from pathlib import Path

import pytest

from eagle3gen.endpoint.refusal import Billed, Decision
from eagle3gen.endpoint.reply import read_reply

ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("EAGLE3GEN_SHARED", ROOT.parent / "shared"))
FOLDER = SHARED / "recorded" / "openrouter"
OUTCOMES = {
    "success": {"success"},
    "success_truncated": {"truncated"},
    "transient": {"transient"},
    "failed_or_truncated": {"permanent_prompt"},
    "side_endpoint": {"permanent_config"},
    "rate_limited_until_reset": {"rate_limited"},
    "budget_exhausted": {"budget"},
    "permanent_config": {"permanent_config"},
    "permanent_prompt": {"permanent_prompt"},
    "defective_sample": {"defective"},
}


def recordings():
    manifest = FOLDER / "manifest.json"
    if not manifest.exists():
        return [pytest.param(None, marks=pytest.mark.skip(reason="no recorded replies beside this checkout"))]
    rows = json.loads(manifest.read_text("utf-8"))
    return [pytest.param(row, id=row["file"]) for row in rows]


@pytest.mark.parametrize("row", recordings())
def test_a_recorded_reply_is_read_as_noted(row):
    """Outcome, retry, bill and finish reason agree with the notes of the recording."""
    expect = row["expect"]
    headers = {**row["headers"], "content-type": row["content_type"]}
    reply = read_reply(row["http_status"], headers, (FOLDER / row["file"]).read_bytes())
    assert reply.outcome in OUTCOMES[expect["outcome"]]
    if reply.completion is not None:
        assert expect["billable"] is True
        assert reply.completion.finish_reason == expect["finish"]
        assert reply.completion.usage.completion_tokens
        return
    assert reply.refusal is not None
    again = expect["retry"] is True or str(expect["retry"]).startswith(("after", "once"))
    assert (reply.refusal.decision is Decision.RETRY) is again
    billable = str(expect["billable"]).lower()
    known = {"true": Billed.YES, "false": Billed.NO, "no": Billed.NO, "unknown:": Billed.MAYBE}
    assert reply.refusal.billed is known[billable.split()[0]]
