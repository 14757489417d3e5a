"""The page around the charts and tables: one file with its own style and script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from experiments.results import PAGE_MARK

from .chart import Chart

Cell = str | int | float | bool | None
Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that sorts. heading: a name and its unit per column.

    rows: cells; numbers sort as numbers. numbers: of the page's data rows that belong to them,
    or None.
    """

    heading: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 2
    numbers: Sequence[int] | None = None

    def html(self) -> str:
        """The table; a column with any number in it is right-aligned."""
        sides = [
            "num" if any(_is_number(row[at]) for row in self.rows) else "text"
            for at in range(len(self.heading))
        ]
        heads = "".join(
            f'<th class="{side}"><button type="button">{escape(name)}</button></th>'
            for name, side in zip(self.heading, sides, strict=True)
        )
        body = "".join(self._row(place, row, sides) for place, row in enumerate(self.rows))
        return (
            f'<div class="scroll"><table class="sorts"><thead><tr>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def _row(self, place: int, row: Sequence[Cell], sides: Sequence[str]) -> str:
        cells = "".join(self._cell(value, side) for value, side in zip(row, sides, strict=True))
        told = f' data-row="{self.numbers[place]}"' if self.numbers is not None else ""
        return f"<tr{told}>{cells}</tr>"

    def _cell(self, value: Cell, side: str) -> str:
        if value is None:
            return f'<td class="{side}" data-v="">-</td>'
        if isinstance(value, bool) or not isinstance(value, int | float):
            text = str(value).lower() if isinstance(value, bool) else value
            return f'<td class="{side}">{escape(text)}</td>'
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.{self.digits}f}"
        return f'<td class="num" data-v="{value!r}">{shown}</td>'


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it, in this order: words, charts, tables, facts."""

    title: str
    words: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    facts: Facts = ()
    code: str = ""

    def html(self) -> str:
        """The section."""
        parts = [
            f"<h2>{escape(self.title)}</h2>",
            *(f"<p>{escape(text)}</p>" for text in self.words),
        ]
        if self.charts:
            wide = [chart.svg() for chart in self.charts if chart.width > 500]
            small = [chart.svg() for chart in self.charts if chart.width <= 500]
            parts += wide
            parts.append(f'<div class="charts">{"".join(small)}</div>' if small else "")
        parts += [table.html() for table in self.tables]
        if self.facts:
            pairs = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in self.facts)
            parts.append(f"<dl>{pairs}</dl>")
        if self.code:
            parts.append(f"<pre>{escape(self.code)}</pre>")
        return f"<section>{''.join(parts)}</section>"


@dataclass(frozen=True, slots=True)
class Page:
    """Everything a report says.

    tiles: the few numbers worth reading first: value with unit, and what it is.
    rows: what marks with a row number show when pointed at: a title and facts.
    """

    title: str
    question: str
    answer: Sequence[str]
    tiles: Facts = ()
    warnings: Sequence[str] = ()
    sections: Sequence[Section] = ()
    rows: Sequence[tuple[str, Facts]] = field(default=())

    def html(self) -> str:
        """The whole page; the same page, the same bytes."""
        parts = files(__package__)
        style, script = (
            parts.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js")
        )
        tiles = "".join(
            f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
            for value, what in self.tiles
        )
        warned = "".join(f"<li>{escape(text)}</li>" for text in self.warnings)
        answer = "".join(f"<p>{escape(text)}</p>" for text in self.answer)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta name="color-scheme" content="light dark">'
            f'<link rel="icon" href="data:,"><title>{escape(self.title)}</title>'
            f"<style>{style}</style></head><body><main><header>"
            f"{PAGE_MARK} {escape(self.title)}</p><h1>{escape(self.question)}</h1>"
            f'<div class="answer">{answer}</div>'
            + (f'<ul class="warnings">{warned}</ul>' if warned else "")
            + f'<div class="tiles">{tiles}</div></header>'
            + "".join(section.html() for section in self.sections)
            + '</main><div id="tip" role="tooltip" hidden></div>'
            f'<script type="application/json" id="rows">{_script_json(self.rows)}</script>'
            f"<script>{script}</script></body></html>\n"
        )


def _is_number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def facts_of(held: Mapping[str, Any]) -> list[tuple[str, str]]:  # Any: JSON values
    """A mapping as pairs of words, without what is not set; nested names joined by dots.

    >>> facts_of({"a": 1, "b": {"c": None, "d": 0.5}, "e": []})
    [('a', '1'), ('b.d', '0.5')]
    """
    found: list[tuple[str, str]] = []
    for name, value in held.items():
        if isinstance(value, Mapping):
            found += [(f"{name}.{inner}", text) for inner, text in facts_of(value)]
        elif value is not None and value != []:
            found.append((str(name), said(value)))
    return found


def said(value: object) -> str:
    """A setting as people write it.

    >>> said(2048), said(None), said(True), said(0.25), said([1, "a"])
    ('2,048', 'none', 'true', '0.25', '1, a')
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _script_json(rows: Sequence[tuple[str, Facts]]) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(list(rows), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")
