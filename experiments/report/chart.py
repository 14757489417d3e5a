"""Charts as inline SVG: every mark may say something when it is pointed at.

Colours are classes (`c0` ... `c6`, `muted`, `prefill` ...), so that the page's style sheet decides
them for light and dark. A mark with `tip` shows that text; one with `row` shows the row of the
page's data with that number, and the table row with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from experiments.plots.widths import extra_width

from .scale import Axis

WIDTH, HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 12, 44
_CHARACTER_PX, _LINE_PX = 6.6, 13
"""Room that a word takes."""

COLOURS = 7
"""Classes `c0` ... of marks."""


def across(width: int = WIDTH) -> tuple[float, float]:
    """Left and right pixel of the plot."""
    return _LEFT, width - _RIGHT


def upward(height: int = HEIGHT) -> tuple[float, float]:
    """Bottom and top pixel of the plot."""
    return height - _BOTTOM, _TOP


def beside_names(names: Sequence[str]) -> int:
    """Left pixel of a plot whose rows have names, with room for them and the axis' own.

    >>> beside_names(["256", "none"]), beside_names(["a rather long name"]) > 150
    (96, True)
    """
    return min(max(96, 34 + round(7.2 * max(map(len, names)))), 360)


@dataclass(slots=True)
class Chart:
    """One chart. Marks are drawn in the order they are added.

    legend: (class, words, shape) with shape `dot`, `ring`, `line`, `dash` or `box`.
    """

    title: str
    x: Axis
    y: Axis
    width: int = WIDTH
    height: int = HEIGHT
    note: str = ""
    legend: list[tuple[str, str, str]] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    _words: list[tuple[float, float, float]] = field(default_factory=list)
    _dots: list[tuple[float, float]] = field(default_factory=list)

    def line(
        self,
        points: Iterable[tuple[float, float]],
        css: str,
        *,
        dashed: bool = False,
        width: float = 2,
    ) -> None:
        """A line through points in data coordinates. width: in pixels."""
        path = " ".join(f"{self.x.at(x)},{self.y.at(y)}" for x, y in points)
        if path:
            dash = " dash" if dashed else ""
            wide = f' stroke-width="{width:.1f}"'
            self.marks.append(f'<polyline class="line {css}{dash}"{wide} points="{path}"/>')

    def dot(
        self,
        at: tuple[float, float],
        css: str,
        *,
        row: int | None = None,
        tip: str = "",
        radius: float = 5,
    ) -> None:
        """A dot that can be pointed at."""
        x, y = self.x.at(at[0]), self.y.at(at[1])
        self._dots.append((x, y))
        told = _told(row, tip)
        self.marks.append(f'<circle class="dot {css}" cx="{x}" cy="{y}" r="{radius}"{told}/>')

    def box(
        self,
        corners: tuple[float, float, float, float],
        css: str,
        *,
        row: int | None = None,
        tip: str = "",
    ) -> None:
        """A rectangle from (x, y) to (x, y) in data coordinates."""
        x0, x1 = sorted((self.x.at(corners[0]), self.x.at(corners[2])))
        y0, y1 = sorted((self.y.at(corners[1]), self.y.at(corners[3])))
        size = f'width="{max(round(x1 - x0, 1), 0.3)}" height="{round(y1 - y0, 1)}"'
        self.marks.append(f'<rect class="{css}" x="{x0}" y="{y0}" {size}{_told(row, tip)}/>')

    def area(self, points: Sequence[tuple[float, float]], css: str) -> None:
        """A filled shape between points and the bottom of the axis."""
        floor = self.y.at(self.y.low)
        inner = " ".join(f"{self.x.at(x)},{self.y.at(y)}" for x, y in points)
        first, last = self.x.at(points[0][0]), self.x.at(points[-1][0])
        path = f"{first},{floor} {inner} {last},{floor}"
        self.marks.append(f'<polygon class="area {css}" points="{path}"/>')

    def words(self, at: tuple[float, float], text: str) -> None:
        """A word beside a dot, where it hides no word and no dot; left out if there is no room."""
        x, y = self.x.at(at[0]), self.y.at(at[1])
        long = _CHARACTER_PX * len(text)
        for left in (x + 7, x - 7 - long):
            for base in (y - 7, y + 16):
                if self._is_free(left, left + long, base):
                    self._words.append((left, left + long, base))
                    place = f'x="{round(left, 1)}" y="{round(base, 1)}"'
                    self.marks.append(_text("word", text, place))
                    return

    def _is_free(self, left: float, right: float, base: float) -> bool:
        """No dot and no word where one would stand on this line."""
        (first, last), (floor, top) = self._sides(), self._ends()
        inside = first <= left and right <= last and top + _LINE_PX <= base <= floor - 3
        near = 4.5
        return (
            inside
            and not any(
                left - near < x < right + near and base - _LINE_PX < y < base + near + 2
                for x, y in self._dots
            )
            and not any(
                abs(base - other) < _LINE_PX and left < end and start < right
                for start, end, other in self._words
            )
        )

    def limit(self, value: float, which: str, text: str) -> None:
        """A dashed line across the plot at a value of the x or y axis, named in the legend."""
        axis = self.x if which == "x" else self.y
        if not axis.low <= value <= axis.high:
            return
        at, (left, right), (floor, top) = axis.at(value), self._sides(), self._ends()
        x1, y1, x2, y2 = (at, floor, at, top) if which == "x" else (left, at, right, at)
        ends = f'x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"'
        self.marks.append(f'<line class="limit" {ends}/>')
        self.legend.append(("ink", text, "dash"))

    def svg(self) -> str:
        """The chart as a figure of the page, with its title and legend."""
        label = escape(f"{self.title}: {self.y.label} over {self.x.label}", quote=True)
        body = "".join([*self._grid(), *self.marks, *self._labels()])
        keys = "".join(
            f'<span class="key"><i class="{shape} {css}"></i>{escape(words)}</span>'
            for css, words, shape in self.legend
        )
        note = f'<p class="note">{escape(self.note)}</p>' if self.note else ""
        return (
            f"<figure><figcaption>{escape(self.title)}</figcaption>{note}"
            f'<div class="scroll"><svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{label}" style="min-width:{0.72 * self.width:.0f}px">'
            f'{body}</svg></div><div class="keys">{keys}</div></figure>'
        )

    def _sides(self) -> tuple[float, float]:
        return min(self.x.start, self.x.end), max(self.x.start, self.x.end)

    def _ends(self) -> tuple[float, float]:
        return max(self.y.start, self.y.end), min(self.y.start, self.y.end)

    def _grid(self) -> Iterable[str]:
        (left, right), (floor, top) = self._sides(), self._ends()
        for value, text in self.x.ticks():
            x = self.x.at(value)
            if not self.x.names:
                yield f'<line class="grid" x1="{x}" y1="{floor}" x2="{x}" y2="{top}"/>'
            yield _text("tick", text, f'x="{x}" y="{floor + 16}" text-anchor="middle"')
        for value, text in self.y.ticks():
            y = self.y.at(value)
            if not self.y.names:
                yield f'<line class="grid" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>'
            yield _text("tick", text, f'x="{left - 6}" y="{y + 4}" text-anchor="end"')

    def _labels(self) -> Iterable[str]:
        (left, right), (floor, top) = self._sides(), self._ends()
        yield f'<line class="axis" x1="{left}" y1="{floor}" x2="{right}" y2="{floor}"/>'
        middle = (left + right) / 2
        yield _text("name", self.x.label, f'x="{middle}" y="{floor + 35}" text-anchor="middle"')
        if self.y.label:
            turned = f"translate(13 {(floor + top) / 2}) rotate(-90)"
            yield _text("name", self.y.label, f'transform="{turned}" text-anchor="middle"')


def width_of(rank: int, of: int) -> float:
    """Pixels of the n-th of several lines.

    >>> width_of(0, 3), width_of(2, 3)
    (4.8, 2.0)
    """
    return 2.0 + extra_width(rank, of)


def colour(rank: int) -> str:
    """The class of the n-th series."""
    return f"c{rank % COLOURS}"


def _text(css: str, text: str, place: str) -> str:
    return f'<text class="{css}" {place}>{escape(text)}</text>'


def _told(row: int | None, tip: str) -> str:
    if row is not None:
        return f' data-row="{row}" tabindex="0"'
    return f' data-tip="{escape(tip, quote=True)}"' if tip else ""
