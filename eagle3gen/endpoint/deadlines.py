"""How long a call may take, and in which form its answer comes."""

from dataclasses import dataclass
from enum import StrEnum

CONNECT_SECONDS = 10.0


class Transport(StrEnum):
    """How an answer is sent."""

    PLAIN = "plain"
    """In one piece."""
    STREAM = "stream"
    """As server-sent events: silence is noticed, and closing the connection stops the bill on many hosts."""
    AUTO = "auto"
    """As events, unless the endpoint refuses to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The seconds after which a call is given up; None is no limit."""

    total: float
    connect: float | None = None
    """Until there is a connection; None is the client's own limit of 10 s."""
    first_byte: float | None = None
    """From the start of the call to the headers. A plain call may show them only when its answer is ready."""
    no_progress: float | None = None
    """The longest silence of a stream. Comments and blanks are silence. Noticed after between 7/8 and all of it."""
