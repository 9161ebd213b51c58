"""How a bad host shows an answer. The ids stay what they are."""

import random
from dataclasses import replace

from eagle3gen.simulator.voice import Answer, Voice

DRIFT = (-3, -2, -1, 1, 2, 3)


def shown(answer: Answer, faults: frozenset[str], rng: random.Random, voice: Voice) -> Answer:
    """The answer with its faults, in the order in which a server's steps would make them."""
    if "leaked_markers" in faults:
        finish = "stop" if answer.finish == "tool_calls" else answer.finish
        said = voice.spelled(voice.after_thinking(answer.ids))
        answer = replace(answer, content=said, calls=[], finish=finish)
    if "stripped_blank" in faults:
        answer = replace(answer, reasoning=_stripped(answer.reasoning), content=_stripped(answer.content))
    if "count_drift" in faults:
        answer = replace(answer, billed=max(1, answer.billed + rng.choice(DRIFT)))
    if "no_finish" in faults:
        answer = replace(answer, finish=None)
    return answer


def _stripped(text: str | None) -> str | None:
    return None if text is None else text.lstrip(" \n")
