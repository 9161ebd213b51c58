"""What stands in the arguments of a tool call."""

import random
from typing import Any


def fitting(rng: random.Random, schema: Any, depth: int = 0) -> Any:
    """A value that fits a schema well enough."""
    if not isinstance(schema, dict) or depth > 4:
        return "value"
    if schema.get("enum"):
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "integer":
        return rng.randint(0, 999)
    if kind == "number":
        return round(rng.uniform(0, 100), 2)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        return [fitting(rng, schema.get("items"), depth + 1) for _ in range(rng.randint(1, 3))]
    if kind == "object":
        return {n: fitting(rng, s, depth + 1) for n, s in (schema.get("properties") or {}).items()}
    return rng.choice(["Lisbon", 'a "quoted" word', "東京", "two words", "naïve", "x = 1\ny = 2", "🎉"])
