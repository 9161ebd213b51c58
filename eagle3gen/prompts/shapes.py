"""The shapes that rows come in, one small reader each, chosen by what a row holds.

Only what stands before the first assistant turn is sent: that turn is what the target is asked for. Old answers in a
file are never sent as if they were the target's.
"""

from collections.abc import Callable, Mapping
from typing import Any

from eagle3gen.prompts.tools import read_tools
from eagle3gen.prompts.turns import first_question, joined
from eagle3gen.prompts.values import NotAPrompt, kind, listed, quoted, text
from eagle3gen.records import Conversation, Json

FIELDS_SHOWN = 8

Row = Mapping[str, Any]


def read_row(row: Any, place: str) -> Conversation:
    """One row as a conversation that ends where the target begins. Raises NotAPrompt.

    The first field that holds something decides the shape; an empty one is passed over.
    """
    if not isinstance(row, Mapping):
        raise NotAPrompt(f"it is {kind(row)}, not an object")
    present = [field for field in READERS if row.get(field) is not None]
    for field in present:
        if turns := READERS[field](row):
            messages = _with_system(row, first_question(turns))
            return Conversation(messages=messages, tools=read_tools(row), source=place)
    if present:
        raise NotAPrompt(f"its {present[0]} field is empty")
    shown = ", ".join(quoted(field) for field in list(row)[:FIELDS_SHOWN]) or "none"
    more = f" and {len(row) - FIELDS_SHOWN:,} more" if len(row) > FIELDS_SHOWN else ""
    raise NotAPrompt(f"none of its fields is one of {', '.join(READERS)} (it has {shown}{more})")


def _messages(row: Row) -> list[Any]:
    """OpenAI `messages`."""
    return listed(row, "messages")


def _conversations(row: Row) -> list[Any]:
    """ShareGPT `conversations`, with `from`/`value` or `role`/`content`."""
    return listed(row, "conversations")


def _turns(row: Row) -> list[Any]:
    """MT-Bench and Spec-Bench `turns`: user texts; the first is asked."""
    return [_user(text(turn, "its first turn")) for turn in listed(row, "turns")[:1]]


def _prompt(row: Row) -> list[Any]:
    """`prompt`: a text, or messages."""
    if isinstance(row["prompt"], list):
        return row["prompt"]
    prompt = text(row["prompt"], "its prompt")
    return [*_earlier(row), _user(prompt)] if prompt.strip() else []


def _instruction(row: Row) -> list[Any]:
    """Alpaca `instruction` with an optional `input` below it."""
    parts = [text(row["instruction"], "its instruction"), text(row.get("input") or "", "its input")]
    asked = "\n\n".join(part for part in parts if part.strip())
    return [*_earlier(row), _user(asked)] if asked else []


def _history(row: Row) -> list[Any]:
    """SWE-agent's `.traj`: `history` without the demonstrations that were shown to the old model."""
    return [turn for turn in _earlier(row) if not (isinstance(turn, Mapping) and turn.get("is_demo") is True)]


READERS: Mapping[str, Callable[[Row], list[Any]]] = {
    "messages": _messages,
    "conversations": _conversations,
    "turns": _turns,
    "prompt": _prompt,
    "instruction": _instruction,
    "history": _history,
}


def _earlier(row: Row) -> list[Any]:
    """What was said before, in `history`: turns, or alpaca's pairs of question and answer.

    Its old answers are not sent, so its first question is the one that is asked.
    """
    turns: list[Any] = []
    for turn in listed(row, "history") if row.get("history") is not None else []:
        if isinstance(turn, list):
            if len(turn) != 2:
                raise NotAPrompt("its history is not made of pairs of a question and an answer")
            turns += [_user(text(turn[0], "a question of its history")), {"role": "assistant"}]
        else:
            turns.append(turn)
    return turns


def _user(asked: str) -> Json:
    return {"role": "user", "content": asked}


def _with_system(row: Row, messages: list[Json]) -> list[Json]:
    """The row's own system text first, unless the messages begin with one."""
    system = row.get("system") or row.get("system_prompt")
    if not system or messages[0]["role"] == "system":
        return messages
    return [{"role": "system", "content": joined(system, "system")}, *messages]
