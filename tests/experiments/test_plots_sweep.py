"""What the figures of a sweep show: colours by a bar, the best as printed, lines at their best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments.plots.curves import METRICS, draw_curves
from experiments.plots.style import house_style
from experiments.plots.sweep_table import SweepTable

Grid = Mapping[str, Sequence[Any]]  # Any: swept values
Values = Mapping[str, Sequence[float | None]]


def table_of(grid: Grid, values: Values, status: Sequence[str] = ()) -> SweepTable:
    """Every combination of the grid, the last field fastest; metrics not given are 1."""
    points = [dict(zip(grid, levels, strict=True)) for levels in product(*grid.values())]
    columns = {name for metric in METRICS for name in (metric.column, metric.dashed) if name}
    columns |= {"ttft_ms_mean", "tpot_ms_mean", "e2el_ms_mean", "goodput_fraction"}
    frame = pd.DataFrame({"index": range(len(points)), "status": list(status) or "ok"})
    frame = frame.assign(saturated=False, **{name: 1.0 for name in sorted(columns)})
    frame = frame.assign(**{name: pd.Series(column) for name, column in values.items()})
    for field in grid:
        frame[field] = pd.Series([point[field] for point in points], dtype=object)
    return SweepTable(frame, grid, {"ttft_ms": 1000.0}, "a workload")


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """The figures saved, laid out as they are in their files."""
    figures: list[Figure] = []
    savefig = Figure.savefig

    def keep(figure: Figure, *arguments: Any, **settings: Any) -> None:  # Any: savefig's own
        savefig(figure, *arguments, **settings)
        figures.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    with house_style():
        yield figures


@pytest.mark.parametrize("names", [["static", "vllm"], ["a", "b", "c", "d", "e"], [True, False]])
def test_bars_beside_names_are_whole(names: list[Any], saved: list[Figure], tmp_path: Path) -> None:
    """No panel cuts off what stands for a median or a maximum; nothing connects the names."""
    field = "enable_prefix_caching" if True in names else "scheduler"
    table = table_of({field: names, "rate": [2.0, 4.0]}, {})
    draw_curves(table, field, tmp_path / "x.png")
    for axes in saved[0].axes:
        left, right = axes.get_xlim()
        ends = [line.get_xdata() for line in axes.lines]
        assert all(left < min(end) <= max(end) < right for end in ends)
        assert all(max(end) - min(end) < 0.5 for end in ends)
