"""What the figures of a sweep show: colours by a bar, the best as printed, lines at their best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.plots.curves import METRICS, draw_curves
from experiments.plots.heatmap import HEATMAPS, draw_heatmap
from experiments.plots.held import beside, held_in_words, held_values, lines_over
from experiments.plots.style import house_style
from experiments.plots.sweep_table import SweepTable
from experiments.plots.tradeoff import draw_tradeoff
from experiments.sweep import load_spec
from experiments.sweep.lanes import choose_points, foreseen_points

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


def panels_and_bar(figure: Figure) -> tuple[list[Axes], Axes]:
    *panels, bar = figure.axes
    return panels, bar


TWO: Grid = {"chunk_size": [256, None], "max_num_batched_tokens": [512, 2048]}


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("goodput-heatmap.png", "requests/s"),
        ("ttft-heatmap.png", "ms, log scale"),
        ("tpot-heatmap.png", "ms, log scale"),
    ],
)
def test_a_bar_beside_a_map_says_what_its_colours_are(
    name: str, unit: str, saved: list[Figure], tmp_path: Path
) -> None:
    """A cell has the colour that the bar has at its number."""
    numbers = [20.0, 40.0, 80.0, 160.0]
    draw_heatmap(table_of(TWO, {HEATMAPS[name].column: numbers}), tmp_path / name)
    (panel,), bar = panels_and_bar(saved[0])
    assert bar.get_ylabel() == unit
    (mesh,) = (drawn for drawn in bar.collections if isinstance(drawn, QuadMesh))
    for patch, number in zip(_cells(panel), numbers, strict=True):
        assert to_hex(patch.get_facecolor()) == to_hex(mesh.cmap(mesh.norm(number)))
    low, high = bar.get_ylim()
    expected_low = 0.0 if unit == "requests/s" else min(numbers)
    assert (low, high) == pytest.approx((expected_low, max(numbers)))
    ticks = [tick for tick in bar.get_yticks() if low <= tick <= high]
    assert len(ticks) >= 3


def _cells(panel: Axes) -> list[Rectangle]:
    """In the order of `TWO`: up the first column, then the second."""
    cells = [patch for patch in panel.patches if isinstance(patch, Rectangle)]
    return sorted(cells, key=lambda cell: cell.get_xy())


def test_numbers_keep_within_cells_and_names_apart_in_a_wide_map(
    saved: list[Figure], tmp_path: Path
) -> None:
    """Eight chunk sizes in three panels a row, latencies of five digits."""
    sizes = [32, 64, 128, 256, 512, 1024, 2048, None]
    grid = {"variant": ["small chunks", "default"], "rate": [1.0, 2.0, 3.0], "chunk_size": sizes}
    grid = {**grid, "max_num_batched_tokens": [512, 2048]}
    table = table_of(grid, {"ttft_ms_p99": [25_496.0] * 96})
    draw_heatmap(table, tmp_path / "ttft-heatmap.png")
    figure = saved[0]
    panels, bar = panels_and_bar(figure)
    assert len(panels) == 6
    FigureCanvasAgg(figure).draw()
    for panel in panels:
        cell = panel.get_window_extent().width / len(sizes)
        assert all(text.get_window_extent().width <= cell for text in panel.texts)
        assert not panel.get_tightbbox().overlaps(bar.get_tightbbox())
    boxes = [panel.get_tightbbox() for panel in panels]  # with titles and names of ticks
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert panels[-1].get_xticklabels()[0].get_rotation() == 45


@pytest.mark.parametrize(
    ("name", "numbers", "bold"),
    [
        ("goodput-heatmap.png", [2.0041, 2.0039, 1.99, 2.0], {"2.00": 3}),
        ("goodput-heatmap.png", [0.004, 0.0, 0.0, 0.0], {}),
        ("ttft-heatmap.png", [1046.4, 1045.6, 1046.6, 2000.0], {"1,046": 2}),
        ("tpot-heatmap.png", [29.84, 29.76, 29.9, None], {"29.8": 2}),
        ("tpot-heatmap.png", [99.97, 100.2, 101.0, 120.0], {"100": 2}),
    ],
)
def test_all_that_print_the_best_number_are_bold(
    name: str,
    numbers: list[float | None],
    bold: dict[str, int],
    saved: list[Figure],
    tmp_path: Path,
) -> None:
    """2.0041 and 2.0039 are both 2.00; where all is 0.00 nothing is best."""
    draw_heatmap(table_of(TWO, {HEATMAPS[name].column: numbers}), tmp_path / name)
    (panel,), _ = panels_and_bar(saved[0])
    found = [text.get_text() for text in panel.texts if text.get_fontweight() == "bold"]
    assert {text: found.count(text) for text in found} == bold


def test_cells_that_hardly_differ_look_alike(saved: list[Figure], tmp_path: Path) -> None:
    """46.3 and 46.5 ms are no two ends of a scale."""
    numbers = [46.3, 46.5, 46.4, 46.3]
    draw_heatmap(table_of(TWO, {"tpot_ms_p99": numbers}), tmp_path / "tpot-heatmap.png")
    (panel,), bar = panels_and_bar(saved[0])
    assert bar.get_ylim()[1] > 1.2 * bar.get_ylim()[0]
    assert len({text.get_color() for text in panel.texts}) == 1


def test_a_point_that_failed_is_in_no_cell_of_another(saved: list[Figure], tmp_path: Path) -> None:
    """With 8 sequences nothing ran: the map is of 64, and says so."""
    grid = {"max_num_seqs": [8, 64], **TWO, "rate": [1.0, 2.0]}
    status = ["failed"] * 8 + ["ok"] * 8
    table = table_of(grid, {"ttft_ms_p99": [None] * 8 + [10.0] * 8}, status)
    draw_heatmap(table, tmp_path / "ttft-heatmap.png")
    panels, _ = panels_and_bar(saved[0])
    assert {text.get_text() for panel in panels for text in panel.texts} == {"10.0"}
    assert any("max seqs 64 (of the best point)" in text.get_text() for text in saved[0].texts)


def test_every_lowest_panel_names_its_columns(saved: list[Figure], tmp_path: Path) -> None:
    """Three rates stand in two rows: nothing is below the second."""
    draw_heatmap(table_of({**TWO, "rate": [1.0, 2.0, 3.0]}, {}), tmp_path / "ttft-heatmap.png")
    panels, _ = panels_and_bar(saved[0])
    named = [any(name.get_visible() for name in panel.get_xticklabels()) for panel in panels]
    assert named == [False, True, True]


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


def test_lanes_are_chosen_by_what_the_table_prints() -> None:
    """2.0041 and 2.0039 good requests/s are both 2.00: the sooner first token decides."""
    grid = {"scheduler": ["continuous", "chunked"], "chunk_size": [256, 512]}
    spec = load_spec(None, {"requests": 10, "rate": 2}, grid)
    rows = pd.DataFrame({"index": range(4), "status": "ok", "effective_chunk_size": 256})
    rows["request_goodput"] = [2.0041, 2.0039, 2.0, 1.99]
    rows["goodput_fraction"] = [1.0, 0.9999, 0.99, 0.98]
    rows["ttft_ms_p99"] = [90.0, 80.0, 80.01, 80.0]
    rows["tpot_ms_p99"] = 9.0
    assert [point.index for point in choose_points(spec, rows)] == [1, 2]


@pytest.mark.parametrize(
    ("grid", "foreseen"),
    [
        ({"rate": [2, 4, 8]}, [1]),
        ({"rate": [2, 4, 8], "scheduler": ["continuous", "chunked"]}, [2, 3]),
        ({"chunk_size": [256, 512, 1024]}, [0, 1, 2]),
        ({"scheduler": ["continuous", "chunked"], "chunk_size": [256, 512]}, []),
        ({"chunk_size": [256, 512], "max_num_batched_tokens": [512, 2048]}, []),
    ],
)
def test_lanes_are_foreseen_where_no_result_chooses_among_points(
    grid: Grid, foreseen: list[int]
) -> None:
    spec = load_spec(None, {"requests": 10, "rate": 2} if "rate" not in grid else {}, grid)
    rows = pd.DataFrame({"index": range(len(spec)), "status": "ok", "effective_chunk_size": 256})
    rows[["request_goodput", "ttft_ms_p99", "tpot_ms_p99"]] = 1.0
    assert [point.index for point in foreseen_points(spec, range(len(spec)))] == foreseen
    if foreseen:
        assert [point.index for point in choose_points(spec, rows)] == foreseen


SCHEDULERS = ["static", "continuous", "chunked", "vllm", "sglang", "edf"]


def texts(figure: Figure) -> str:
    """All that a figure says beside its panels."""
    return " ".join(text.get_text() for text in figure.texts)


def test_no_scheduler_is_left_out_of_the_panels(tmp_path: Path, saved: list[Figure]) -> None:
    """None of them lies between two others; rates do."""
    grid = {
        "rate": [1.0, 2.0, 3.0, 4.0, 5.0],
        "scheduler": SCHEDULERS,
        "chunk_size": [256, 512],
        "max_num_batched_tokens": [512, 2048],
    }
    table = table_of(grid, {"request_goodput": [1.0] * (5 * 6 * 2 * 2)})
    draw_heatmap(table, tmp_path / "goodput-heatmap.png")
    draw_curves(table, "chunk_size", tmp_path / "chunk-size.png")

    heat, curves = saved
    titles = " ".join(axes.get_title(loc="left") for axes in heat.axes)
    assert all(name in titles for name in SCHEDULERS)
    assert "Shown: rate 1, 3, 5 (of 5 values)." in texts(heat)
    assert [axes.get_title(loc="left") for axes in curves.axes[:6]] == SCHEDULERS
    assert "Shown:" not in texts(curves)


def test_values_without_a_panel_are_said(tmp_path: Path, saved: list[Figure]) -> None:
    grid = {"rate": [1.0, 2.0, 3.0, 4.0, 5.0], "chunk_size": [256, 512]}
    table = table_of(grid, {"ttft_ms_p99": [*map(float, range(1, 11))]})
    draw_tradeoff(table, tmp_path / "ttft-vs-tpot.png")

    (figure,) = saved
    assert "Shown: rate 1, 2, 4, 5 (of 5 values)." in texts(figure)
    assert len([axes for axes in figure.axes if axes.get_title(loc="left")]) == 4


def test_long_settings_are_numbers_that_a_list_explains(
    tmp_path: Path, saved: list[Figure]
) -> None:
    """Twelve points on the frontier: eight are numbered, whole and apart, and no more is said."""
    models = [f"some-cost-model-of-a-gpu-{rank}" for rank in range(12)]
    grid: Grid = {"cost_model": models, "max_num_seqs": [32, 64]}
    ttft = [float(100 * rank) for rank in range(1, 13) for _ in "ab"]
    tpot = [float(80 - 6 * rank) for rank in range(12) for _ in "ab"]
    values = {"ttft_ms_p99": ttft, "tpot_ms_p99": tpot, "ttft_ms_mean": ttft}
    draw_tradeoff(table_of(grid, values), tmp_path / "ttft-vs-tpot.png")

    (figure,) = saved
    FigureCanvasAgg(figure).draw()
    labels = [text for text in figure.axes[0].texts if text.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    frame = figure.axes[0].get_window_extent()
    assert [label.get_text() for label in labels] == [str(number) for number in range(1, 9)]
    assert all(frame.contains(*corner) for box in boxes for corner in (box.min, box.max))
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert "4 more points of it are not numbered." in texts(figure)

    told = figure.legends[0].get_title()
    assert told.get_text().split("\n")[0] == "1  some-cost-model-of-a-gpu-0"
    room = told.get_window_extent()
    assert figure.bbox.contains(*room.min)
    assert figure.bbox.contains(*room.max)
    assert not room.overlaps(figure.axes[0].get_tightbbox())
