"""What the client adds to every request on its own account."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from eagle3gen.endpoint.deadlines import Transport
from eagle3gen.endpoint.refusal import Billed
from eagle3gen.endpoint.reply import Reply
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.endpoint.sampling import openrouter_sampling

OPENROUTER: Mapping[str, Any] = {
    # Prompts are never to be altered on their way.
    "plugins": [{"id": "context-compression", "enabled": False}],
}
OTHERS: Mapping[str, Any] = {"return_token_ids": True}
"""vLLM and SGLang tell the ids that they read and wrote."""
STREAMED: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
UNKNOWN_WISH = frozenset({400, 405, 415, 422, 501})
"""By these a server says that it does not know a field."""


@dataclass(slots=True)
class Extras:
    """The extras of one endpoint, without those that it was seen to refuse."""

    is_openrouter: bool
    refused: set[str] = field(default_factory=set)

    def for_call(self, request: CompletionRequest, transport: Transport) -> dict[str, Any]:
        """The fields to add to one request."""
        extra = dict(OPENROUTER if self.is_openrouter else OTHERS)
        if transport is Transport.STREAM or (transport is Transport.AUTO and "stream" not in self.refused):
            extra |= STREAMED
        return {name: value for name, value in extra.items() if name == "stream" or name not in self.refused}

    def adapted(self, request: CompletionRequest) -> CompletionRequest:
        """The request in the endpoint's own words."""
        if not self.is_openrouter:
            return request
        return replace(request, sampling=openrouter_sampling(request.sampling))

    def drop_unwelcome(self, extra: Mapping[str, Any], reply: Reply, transport: Transport) -> bool:
        """Whether the server refused one of `extra` by name: it is left out from now on, and the call is due again."""
        if reply.refusal is None or reply.status not in UNKNOWN_WISH or reply.refusal.billed is not Billed.NO:
            return False
        droppable = ["return_token_ids", "stream_options", *(["stream"] if transport is Transport.AUTO else [])]
        for name in droppable:
            if name in extra and re.search(rb"\b%s(ing)?\b" % name.encode(), reply.body[:4000]):
                self.refused.add(name)
                return True
        return False
