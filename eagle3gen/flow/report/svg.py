"""Drawing with SVG elements: a frame with axes, and the few shapes that the plots are made of.

Elements are built with ElementTree, which escapes every text. Colours are classes, so that the page decides them for
light, dark and paper. A plot is 400 units wide, about as wide as it is shown, so that its text stays readable.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

WIDTH = 400.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 26.0, 44.0
TEXT_UNITS = 6.2
"""The width of a narrow letter at the size of the labels, on the wide side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """From 0 or a start to `top`, with its ticks as (value, words) and a name that holds the unit."""

    name: str
    ticks: Sequence[tuple[float, str]]
    top: float
    bottom: float = 0.0

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        return (value - self.bottom) / (self.top - self.bottom) if self.top > self.bottom else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A plot to draw in: values to units."""

    root: Element
    x: Axis
    y: Axis | None
    height: float

    def across(self, value: float) -> float:
        return LEFT + self.x.share(value) * (WIDTH - LEFT - RIGHT) if self.y else 2 + self.x.share(value) * (WIDTH - 30)

    def up(self, value: float) -> float:
        if self.y is None:
            raise ValueError("this plot has rows, not a y axis")
        return self.height - BOTTOM - self.y.share(value) * (self.height - BOTTOM - TOP)


def number(value: float) -> str:
    """A coordinate, without idle digits."""
    return f"{value:.1f}".removesuffix(".0")


def add(parent: Element, tag: str, kind: str = "", **attributes: float | str) -> Element:
    """A child element with a class; underscores in names become hyphens."""
    words = {
        name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else number(value)
        for name, value in attributes.items()
    }
    return SubElement(parent, tag, {"class": kind, **words} if kind else words)


def write(parent: Element, text: str, x: float, y: float, kind: str = "tick", anchor: str = "start") -> Element:
    element = add(parent, "text", kind, x=x, y=y, text_anchor=anchor)
    element.text = text
    return element


def hint(element: Element, text: str) -> None:
    """What a pointer or a screen reader is told about a shape."""
    SubElement(element, "title").text = text


def new(key: str, title: str, description: str, height: float) -> Element:
    """An empty plot. `key` must be unique on the page."""
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {number(WIDTH)} {number(height)}",
            "role": "img",
            "aria-labelledby": f"{key}-title {key}-desc",
        },
    )
    add(root, "title", id=f"{key}-title").text = title
    add(root, "desc", id=f"{key}-desc").text = description
    return root


def framed(root: Element, height: float, x: Axis, y: Axis) -> Frame:
    """Draw both axes with grid lines, ticks and names."""
    frame = Frame(root=root, x=x, y=y, height=height)
    for value, words in y.ticks:
        level = frame.up(value)
        add(root, "line", "grid", x1=LEFT, y1=level, x2=WIDTH - RIGHT, y2=level)
        write(root, words, LEFT - 6, level + 4, anchor="end")
    write(root, y.name, 2, 12, "axis")
    _x_axis(frame, height - BOTTOM, tall=0)
    return frame


def rows(root: Element, height: float, x: Axis) -> Frame:
    """Draw the x axis below rows that name themselves."""
    frame = Frame(root=root, x=x, y=None, height=height)
    _x_axis(frame, height - BOTTOM, tall=height - BOTTOM)
    return frame


def _x_axis(frame: Frame, floor: float, tall: float) -> None:
    left, right = frame.across(frame.x.bottom), frame.across(frame.x.top)
    for value, words in frame.x.ticks:
        at = frame.across(value)
        add(frame.root, "line", "grid", x1=at, y1=floor - tall, x2=at, y2=floor + 4)
        half = TEXT_UNITS * len(words) / 2
        anchor = "start" if at - half < 0 else "end" if at + half > WIDTH else "middle"
        write(frame.root, words, at, floor + 17, anchor=anchor)
    add(frame.root, "line", "floor", x1=left, y1=floor, x2=right, y2=floor)
    write(frame.root, frame.x.name, (left + right) / 2, frame.height - 8, "axis", "middle")


def shortened(text: str, units: float) -> str:
    """As much of a text as fits, with an ellipsis if it is cut. Wide scripts count double."""
    room = units / TEXT_UNITS
    for end, letter in enumerate(text):
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return text[: max(0, end - 1)].rstrip() + "…"
    return text


def as_markup(root: Element) -> str:
    return tostring(root, encoding="unicode")
