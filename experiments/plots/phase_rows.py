"""Requests as rows over time, coloured by what each was doing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from experiments.phases import Interval, request_phases
from experiments.saved_run import SavedRun

from .style import DECODE, INK, PREFILL, RULE, value_label

PHASE_COLOURS = {
    "queue": "#c4c4c4",
    "prefill": PREFILL,
    "decode": DECODE,
    "stalled": "#CC79A7",
    "preempted": "#000000",
}
_WORDS = {
    "queue": "queued",
    "prefill": "prompt computed",
    "decode": "gets tokens",
    "stalled": "stalled: in no step",
    "preempted": "preempted",
}


class PhaseRow(NamedTuple):
    """One request. row: its place in requests.parquet. parts: its phases in order."""

    row: int
    label: str
    parts: tuple[Interval, ...]

    @property
    def span(self) -> tuple[int, int]:
        """Arrival and last token, ns."""
        return self.parts[0].start_ns, self.parts[-1].end_ns


def phase_rows(run: SavedRun, rows: Iterable[int]) -> list[PhaseRow]:
    """The requests among these that were ever served, in the order given."""
    found = []
    for row, parts in groupby(request_phases(run, rows), key=lambda part: part.request):
        request = run.requests.iloc[row]
        tokens = value_label(int(request["prompt_tokens"]))
        found.append(PhaseRow(row, f"{_short(str(request['id']))}: {tokens}", tuple(parts)))
    return found


def draw_rows(
    axes: Axes, rows: Sequence[PhaseRow], *, zero_ns: int, per: int, watched: int | None = None
) -> None:
    """One bar a request, the first on top. zero_ns: where the axis is 0; per: ns of a unit.

    watched: the request whose label is bold.
    """
    for place, row in enumerate(rows):
        for phase, colour in PHASE_COLOURS.items():
            spans = [
                ((part.start_ns - zero_ns) / per, (part.end_ns - part.start_ns) / per)
                for part in row.parts
                if part.phase == phase
            ]
            axes.broken_barh(spans, (place - 0.4, 0.8), facecolors=colour, linewidth=0, zorder=3)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=8.5)
    for row, label in zip(rows, axes.get_yticklabels(), strict=True):
        label.set_fontweight("bold" if row.row == watched else "normal")
        label.set_color(INK)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x", color=RULE)
    axes.tick_params(axis="y", length=0)


def phase_legend(rows: Sequence[PhaseRow], span: tuple[int, int]) -> list[Patch]:
    """An entry for every phase that some request is in during the span, ns."""
    parts = (part for row in rows for part in row.parts)
    seen = {part.phase for part in parts if part.end_ns > span[0] and part.start_ns < span[1]}
    return [Patch(color=PHASE_COLOURS[p], label=_WORDS[p]) for p in PHASE_COLOURS if p in seen]


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"…{name[-15:]}"
