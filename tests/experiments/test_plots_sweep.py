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
from experiments.plots.held import beside, held_in_words, held_values, lines_over
from experiments.plots.style import house_style
from experiments.plots.sweep_table import SweepTable

Grid = Mapping[str, Sequence[Any]]  # Any: swept values
Values = Mapping[str, Sequence[float | None]]

KNOBS: Grid = {
    "rate": [2.0, 4.0],
    "scheduler": ["continuous", "chunked"],
    "chunk_size": [256, None],
    "max_num_batched_tokens": [512, 2048],
}


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


def test_a_line_over_a_load_has_the_settings_that_are_best_on_average() -> None:
    """Of two chunk sizes 256 is best at one rate (9 > 8), none is on average (7 > 5)."""
    grid = {"rate": [2.0, 4.0], "scheduler": ["static", "chunked"], "chunk_size": [256, None]}
    goodput = [*(3.0, 3.0), *(1.0, 6.0), *(3.0, 3.0), *(9.0, 8.0)]
    table = table_of(grid, {"request_goodput": goodput, "ttft_ms_mean": goodput})
    field, points, words = lines_over(table, "rate")
    assert field == "scheduler"
    assert points["index"].tolist() == [0, 4, 3, 7]
    assert words.replace("\xa0", " ") == (
        "Each line has its best settings (most goodput on average): "
        "static; chunked with chunk none."
    )


def test_a_setting_that_failed_at_one_load_is_not_best_for_the_others() -> None:
    """256 has 9 requests/s at the one rate it ran at, none 5 at each of two."""
    grid = {"rate": [2.0, 4.0], "scheduler": ["vllm", "chunked"], "chunk_size": [256, None]}
    goodput = [*(9.0, 5.0), *(1.0, 1.0), *(None, 5.0), *(1.0, 1.0)]
    status = [*("ok",) * 4, "failed", *("ok",) * 3]
    points = lines_over(table_of(grid, {"request_goodput": goodput}, status), "rate").points
    assert points[points["scheduler"] == "vllm"]["index"].tolist() == [1, 5]


def test_figures_against_the_rate_have_a_line_a_scheduler(
    saved: list[Figure], tmp_path: Path
) -> None:
    """Four fields: schedulers are the lines, at 10 and 20 tokens/s, and the title's lines say
    what the other two are.
    """
    goodput = [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 3.0, 1.0] * 2
    throughput = [5.0, 5.0, 5.0, 10.0, 5.0, 5.0, 20.0, 5.0] * 2
    numbers = {"request_goodput": goodput, "output_throughput": throughput}
    draw_curves(table_of(KNOBS, numbers), "rate", tmp_path / "rate.png")
    (figure,) = saved
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts() if text.get_text().strip()] == [
        "continuous",
        "chunked",
    ]
    panel = figure.axes[0]
    assert panel.get_title("left") == "Output throughput"
    assert [list(line.get_ydata()) for line in panel.lines] == [[10.0, 10.0], [20.0, 20.0]]
    told = " ".join(text.get_text() for text in figure.texts).replace("\xa0", " ")
    assert "continuous with budget 2,048, chunk none; chunked with budget 512, chunk none" in told


def test_no_figure_over_a_setting_leaves_out_a_scheduler() -> None:
    grid: Grid = {**KNOBS, "max_num_seqs": [16, 64], "burstiness": [0.5, 1.0]}
    table = table_of(grid, {})
    for field in table.swept:
        if field != "scheduler":
            assert "scheduler" in beside(table, field)[:2], field
    assert beside(table, "rate")[0] == beside(table, "burstiness")[0] == "scheduler"
    assert beside(table, "rate")[-1] == "burstiness"


def test_what_is_held_is_the_middle_load_and_the_best_point_there() -> None:
    """At rate 4 of 2, 4, 8 the best chunk is 512; over all points it would be 256."""
    grid = {"rate": [2.0, 4.0, 8.0], "chunk_size": [256, 512]}
    table = table_of(grid, {"request_goodput": [2.0, 2.0, 3.0, 4.0, 8.0, 1.0]})
    held = held_values(table, ["chunk_size", "rate"])
    assert held == {"chunk_size": 512, "rate": 4.0}
    assert held_in_words(held) == (
        "Held fixed: rate 4 requests/s (in the middle); chunk 512 (of the best point)."
    )
    assert held_in_words({}) == ""
