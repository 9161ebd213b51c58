"""The canary and the breaker of a dataset: pure rules over its latest answers, kept with the dataset's row.

A *canary* of N prompts is launched first; only when all N are judged does the dataset open. The *breaker* pauses a
dataset when too large a share of its latest answers has one kind of fault. A canary that is over is judged by the
same shares.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self

from eagle3gen.errors import InputError

CANARY = 20


class Fault(StrEnum):
    """What was wrong with an answer. The first letter stands for it in a dataset's `recent`."""

    VERDICT = "verdict"
    """The ids are not proved."""
    STRUCTURE = "structure"
    """The reply is broken, or its ids cannot be an answer of this model."""
    REASONING = "reasoning"
    """The whole answer stands in the reasoning."""
    PERMANENT = "permanent"
    """The endpoint refuses the prompt for good."""
    LOST = "lost"
    """Sent, perhaps billed, and nothing came back that could be read."""


GOOD = "."
WORDS: Mapping[Fault, str] = {
    Fault.VERDICT: "had ids that are not proved",
    Fault.STRUCTURE: "were broken in their structure",
    Fault.REASONING: "stood wholly in the reasoning",
    Fault.PERMANENT: "were refused for good",
    Fault.LOST: "were lost after they were sent, and may be billed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When a dataset is paused by itself: the window in answers, and the share of each fault that is too much."""

    window: int = 200
    minimum: int = 20
    """Fewer answers than this say nothing."""
    verdict: float = 0.2
    structure: float = 0.1
    reasoning: float = 0.4
    permanent: float = 0.4
    lost: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.window <= 10_000:
            raise InputError("a breaker needs 1 <= minimum <= window <= 10000")
        for fault in Fault:
            if not 0 <= self.share(fault) <= 1:
                raise InputError(f"the breaker's {fault.value} is a share between 0 and 1; 1 switches it off")

    def share(self, fault: Fault) -> float:
        """The share of answers with this fault that is still borne."""
        return float(getattr(self, fault.value))

    @classmethod
    def read(cls, text: str) -> Self:
        """From `window=100,verdict=0.3`; what is not named keeps its default. Raises InputError."""
        given: dict[str, Any] = {}
        types = {field.name: field.type for field in fields(cls)}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = part.partition("=")
            if name not in types:
                raise InputError(f"the breaker knows no {name!r}; it knows {', '.join(types)}")
            try:
                given[name] = int(value) if types[name] is int else float(value)
            except ValueError as error:
                raise InputError(f"the breaker's {name} is no number: {value!r}") from error
        return cls(**given)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Trip:
    """Why the breaker opens."""

    fault: Fault
    count: int
    answers: int
    share: float

    def sentence(self, examples: list[int], last: str) -> str:
        """For `status`: what happened, where to look, and what to do."""
        shown = ", ".join(map(str, examples))
        return (
            f"breaker: {self.count} of the last {self.answers} answers {WORDS[self.fault]} (more than "
            f"{self.share:.0%}), for instance prompts {shown}{': ' + last if last else ''}"
        )


def push(recent: str, faults: list[Fault | None], window: int) -> str:
    """The window after these answers, the newest last; None is a good answer."""
    return (recent + "".join(GOOD if fault is None else fault.value[0] for fault in faults))[-window:]


def count_faults(recent: str) -> dict[str, int]:
    """How many of the latest answers have each fault."""
    return {fault.value: recent.count(fault.value[0]) for fault in Fault}


def trip(recent: str, breaker: Breaker, minimum: int) -> Trip | None:
    """The fault that most exceeds its share, if one does and there are enough answers to say so."""
    if len(recent) < max(1, minimum):
        return None
    trips = [
        Trip(fault, count, len(recent), breaker.share(fault))
        for fault in Fault
        if (count := recent.count(fault.value[0])) > breaker.share(fault) * len(recent)
    ]
    return max(trips, key=lambda t: t.count - t.share * t.answers, default=None)
