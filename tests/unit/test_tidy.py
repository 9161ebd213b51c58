"""The house rules that no linter knows (CONTRIBUTING.md)."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("eagle3gen", "workers", "migrations")
FILE_LINES_MAX = 300
FUNCTION_LINES_MAX = 50


def product_files() -> list[Path]:
    return sorted(path for room in PRODUCT for path in (ROOT / room).rglob("*.py"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", product_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    """No product file is longer than 300 lines."""
    assert len(path.read_text("utf-8").splitlines()) <= FILE_LINES_MAX


@pytest.mark.parametrize("path", product_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_function_fits_on_a_screen(path: Path) -> None:
    """No product function is longer than 50 lines."""
    long = [f.name for f in functions(path) if (f.end_lineno or 0) - f.lineno + 1 > FUNCTION_LINES_MAX]
    assert long == []


@pytest.mark.parametrize("path", product_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_money_is_never_a_float(path: Path) -> None:
    """No name that holds USD is annotated or made as a float."""
    text = path.read_text("utf-8")
    assert not re.search(r"\w*(usd|cost|price)\w*\s*:\s*float\b", text)
    assert not re.search(r"float\(\s*\w*(usd|cost|price)", text)


def test_a_module_says_what_it_is() -> None:
    """Every product module with code opens with a docstring."""
    silent = [
        str(path.relative_to(ROOT))
        for path in product_files()
        if path.read_text("utf-8").strip() and ast.get_docstring(ast.parse(path.read_text("utf-8"))) is None
    ]
    assert silent == []


def test_nothing_is_left_unfinished() -> None:
    """No mark of unfinished work is committed."""
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b|NotImplementedError")
    assert [str(p) for p in product_files() if marks.search(p.read_text("utf-8"))] == []


def test_the_lock_holds_hashes_and_no_addresses() -> None:
    """Every pinned version has a hash, and no download address is committed."""
    text = (ROOT / "constraints.txt").read_text("utf-8")
    assert "://" not in text
    pins = re.findall(r"^[a-z0-9][\w.-]*(?:\[[\w,]+\])?==.*\\$", text, re.MULTILINE)
    assert len(pins) > 50
    assert len(pins) == len(re.findall(r"^[a-z0-9].*==", text, re.MULTILINE))


def test_help_is_quick() -> None:
    """Importing the command line loads none of the heavy libraries."""
    heavy = ["transformers", "tiktoken", "tokenizers", "celery", "sqlalchemy", "numpy", "flower"]
    code = f"import sys, eagle3gen.cli; print([m for m in {heavy!r} if m in sys.modules])"
    import sys

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
