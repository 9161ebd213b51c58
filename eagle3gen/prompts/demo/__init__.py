"""The bundled prompts of `eagle3gen demo`, written for this project: many scripts, code, tools, some long ones."""

from importlib.resources import files
from pathlib import Path


def demo_prompts() -> Path:
    """The file of demo prompts."""
    return Path(str(files(__name__) / "demo.jsonl"))
