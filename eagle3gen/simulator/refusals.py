"""What a client is told instead of an answer."""

from collections.abc import Mapping
from typing import Any

from eagle3gen.simulator.numbers import dumps


class Refused(Exception):
    """A call that no host was asked to answer; `code` is the HTTP status."""

    def __init__(
        self,
        code: int,
        message: str,
        metadata: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.metadata = dict(metadata or {})
        self.headers = dict(headers or {})

    @property
    def body(self) -> bytes:
        return error(self.code, str(self), **self.metadata)


class BadRequest(Refused):
    """What a 400 says."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


def error(code: int, message: str, **metadata: Any) -> bytes:
    """An error body, as OpenRouter writes it."""
    inside: dict[str, Any] = {"message": message, "code": code}
    if metadata:
        inside["metadata"] = metadata
    return dumps({"error": inside, "user_id": "user_simulated"})
