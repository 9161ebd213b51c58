"""A report as one HTML page that loads nothing: no script, no font, no picture from anywhere."""

import os
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from eagle3gen import __version__
from eagle3gen.errors import ConfigurationError
from eagle3gen.flow.report import wording
from eagle3gen.flow.report.numbers import Report
from eagle3gen.flow.report.plots import VERDICT_CLASSES, plots
from eagle3gen.ledger.reporting_series import PACE_MINUTES


def page(report: Report) -> str:
    """The whole page. Every name and text in it is escaped."""
    # With one dataset, all of them together say nothing more.
    parts = report.datasets if len(report.datasets) == 1 else (report.plan, *report.datasets)
    sections = [(part, f"part-{n}", plots(part, f"plot-{n}")) for n, part in enumerate(parts)]
    return _template().render(
        report=report,
        sections=sections if report.datasets else [],
        w=wording,
        verdict_classes=VERDICT_CLASSES,
        pace_minutes=PACE_MINUTES,
        version=__version__,
    )


def write_page(report: Report, path: Path) -> None:
    """Write the page; complete or not at all. Raises ConfigurationError when the file cannot be written."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Names from outside may hold halves of surrogate pairs, which no file can.
        unfinished.write_text(page(report), "utf-8", errors="replace")
        unfinished.replace(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; choose another --html") from error
    finally:
        unfinished.unlink(missing_ok=True)


@cache
def _template() -> Template:
    loader = PackageLoader("eagle3gen.flow.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.jinja")
