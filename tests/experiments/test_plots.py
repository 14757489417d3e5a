"""Figures: the numbers behind them by hand; the files by size, bytes and what they leave out."""

from __future__ import annotations

import hashlib
import shutil
import struct
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.cli.plot import draw
from experiments.config import load_config
from experiments.plots import heatmap, plot_run, plot_sweep
from experiments.plots.frontier import pareto_frontier
from experiments.plots.labels import place_labels, spaced_out
from experiments.plots.latency_throughput import draw_latency_throughput
from experiments.plots.moment import lane_names
from experiments.plots.pauses import lane_note, longest_pause_ms
from experiments.plots.phase_rows import draw_rows, phase_legend, phase_rows
from experiments.plots.run_timeline import choose_moment, moment_of
from experiments.plots.style import house_style, palette
from experiments.plots.sweep_table import load_sweep
from experiments.plots.timeline import Lane, draw_timeline
from experiments.plots.value_axis import ValueAxis
from experiments.report.sweep_page import sweep_page
from experiments.run import run_config, write_run
from experiments.saved_run import load_run
from experiments.sweep import load_spec, run_sweep
from simulator.errors import ConfigError


def width_of(png: Path) -> int:
    """Pixels, from the header."""
    header = png.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return int(struct.unpack(">I", header[16:20])[0])


def digests(paths: list[Path]) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two schedulers x two budgets, one too small, x two chunk sizes, on 40 requests."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    base = {"requests": 40, "rate": 4, "max_num_seqs": 64, "input_tokens": "uniform:50:2000"}
    grid = {
        "scheduler": ["continuous", "chunked"],
        "chunk_size": [128, None],
        "max_num_batched_tokens": [32, 512],
    }
    run_sweep(load_spec(None, base, grid), out)
    return out


@pytest.fixture(scope="module")
def drawn_figures(swept: Path) -> tuple[list[Path], list[Figure]]:
    """The sweep's figures, drawn once: their files, and the figures themselves."""
    figures: list[Figure] = []
    savefig = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Figure, "savefig", lambda self, *a, **k: (figures.append(self), savefig(self, *a, **k))
        )
        drawn = plot_sweep(swept)
    return drawn, figures


def test_the_frontier_by_hand() -> None:
    """(1,9) and (2,5) beat (3,6); (4,5) ties in one cost and is no better; (5,1) is the end."""
    first = np.array([3.0, 1.0, 2.0, 4.0, 5.0, np.nan])
    second = np.array([6.0, 9.0, 5.0, 5.0, 1.0, 0.0])
    assert pareto_frontier(first, second).tolist() == [1, 2, 4]


def test_the_frontier_of_nothing_is_empty() -> None:
    assert pareto_frontier(np.array([]), np.array([])).tolist() == []
    assert pareto_frontier(np.array([np.nan]), np.array([1.0])).tolist() == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12))
def test_the_frontier_is_what_nobody_beats(costs: list[tuple[int, int]]) -> None:
    first, second = (np.array([cost[i] for cost in costs], float) for i in (0, 1))
    unbeaten = {
        here
        for here in costs
        if not any(x <= here[0] and y <= here[1] and (x, y) != here for x, y in costs)
    }
    assert [costs[row] for row in pareto_frontier(first, second)] == sorted(unbeaten)


def test_labels_hide_neither_each_other_nor_the_marks() -> None:
    with house_style():
        figure = Figure(figsize=(6, 4), dpi=100)
        axes = figure.subplots()
        points = [(1.0, 1.0), (1.15, 1.05), (1.3, 1.1), (5.0, 4.0)]
        axes.set(xlim=(0, 6), ylim=(0, 5))
        labels = place_labels(axes, points, ["chunked / 2,048 / 8,192"] * 4, line=points)
        boxes = [label.get_window_extent() for label in labels]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    for point in points:
        assert not any(box.contains(*axes.transData.transform(point)) for box in boxes)
    frame = axes.get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in boxes)


def test_points_on_top_of_each_other_share_a_label() -> None:
    axes = Figure(figsize=(6, 4), dpi=100).subplots()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    assert spaced_out(axes, [(0.1, 0.1), (0.1, 0.1), (0.9, 0.9)], 9.0) == [0, 2]


def test_none_stands_beyond_the_largest_value_and_names_side_by_side() -> None:
    assert dict(ValueAxis([256, 1024, None]).items()) == {256: 8.0, 1024: 10.0, None: 12.0}
    assert dict(ValueAxis([4.0, 6.0, 8.0]).items()) == {4.0: 4.0, 6.0: 6.0, 8.0: 8.0}
    assert dict(ValueAxis(["static", "chunked"]).items()) == {"static": 0.0, "chunked": 1.0}


@pytest.mark.parametrize("count", [1, 7, 12])
def test_every_value_has_a_colour_of_its_own(count: int) -> None:
    assert len(set(palette(count))) == count


def steps(*rows: tuple[float, int, int, int]) -> pd.DataFrame:
    """Steps in a row from (duration_ms, prefill_tokens, decode_seqs, seats held up)."""
    lasting = np.array([row[0] for row in rows])
    decode = np.array([row[2] for row in rows])
    return pd.DataFrame(
        {
            "start_ms": np.cumsum(lasting) - lasting,
            "duration_ms": lasting,
            "prefill_tokens": [row[1] for row in rows],
            "prefill_seqs": [int(row[1] > 0) for row in rows],
            "decode_seqs": decode,
            "running": decode + [int(row[1] > 0) + row[3] for row in rows],
        }
    )


def test_the_longest_wait_of_a_stream_by_hand() -> None:
    """Tokens at 8 and 96: 88 ms. An 80 ms prefill with nobody seated holds up nobody."""
    stalled = steps((8, 0, 4, 0), (80, 2048, 0, 4), (8, 0, 5, 0))
    assert longest_pause_ms(stalled) == (88.0, False)
    idle = steps((8, 0, 4, 0), (80, 2048, 0, 0), (8, 0, 1, 0), (8, 0, 1, 0))
    assert longest_pause_ms(idle) == (8.0, False)
    endless = steps((8, 0, 4, 0), (80, 2048, 0, 4))
    assert longest_pause_ms(endless) == (80.0, True)
    assert longest_pause_ms(steps((80, 2048, 0, 0))) is None


def test_a_lane_without_a_token_says_that_its_streams_wait() -> None:
    """Four seats held up through 80 and 40 ms; with no seat held there is nobody to wait."""
    starved = steps((80, 2048, 0, 4), (40, 1024, 0, 5))
    said = "first token after 80 ms, no stream got a token: longest wait over 120 ms"
    assert lane_note(starved, 80.0) == said
    assert lane_note(steps((80, 2048, 0, 0)), 80.0) == "first token after 80 ms"


def test_a_step_is_a_box_as_wide_as_it_lasts() -> None:
    """An 80 ms prompt of 2,048 tokens, then 8 ms of four streams: one box up, one down."""
    axes = Figure().subplots()
    lane = Lane("x", steps((80, 2048, 0, 4), (8, 0, 4, 0)), 80.0)
    draw_timeline([axes], [lane], start_ms=-10, end_ms=100)
    up, down = (collection.get_paths()[0].get_extents() for collection in axes.collections)
    assert (up.x0, up.x1, up.y0, up.y1) == (0, 80, 0, 1)
    assert (down.x0, down.x1, down.y0, down.y1) == (80, 88, -1, 0)


def test_a_sweep_draws_its_figures_and_draws_them_again_bit_for_bit(
    swept: Path, drawn_figures: tuple[list[Path], list[Figure]]
) -> None:
    drawn, _ = drawn_figures
    assert [path.name for path in drawn] == [
        "ttft-vs-tpot.png",
        "chunk-size.png",
        "scheduler.png",
        "goodput-heatmap.png",
        "ttft-heatmap.png",
        "tpot-heatmap.png",
        "timeline.png",
    ]
    assert all(width_of(path) == 1600 for path in drawn)
    first = digests(drawn)
    for path in drawn:
        path.unlink()
    again = plot_sweep(swept, jobs=2)
    assert again == drawn
    assert digests(again) == first
    assert not [path for path in (swept / "figures").iterdir() if path.suffix != ".png"]


def test_a_setting_that_makes_no_difference_is_not_in_a_lane_s_name(swept: Path) -> None:
    """`continuous` has no chunks; budgets of 32 did not run, so 512 is common to all."""
    table = load_sweep(swept)
    assert table.measured_levels("max_num_batched_tokens") == [512]
    names, common = lane_names(table, [1, 5])
    assert names == ["continuous", "chunked"]
    assert common == "chunk 128, budget 512"
    assert table.matters(table.frame.loc[5].to_dict(), "chunk_size")
    assert not table.matters(table.frame.loc[1].to_dict(), "chunk_size")


def test_legends_stand_outside_the_data(
    drawn_figures: tuple[list[Path], list[Figure]],
) -> None:
    _, figures = drawn_figures
    for figure in figures:
        FigureCanvasAgg(figure).draw()
        assert not any(axes.get_legend() for axes in figure.axes)
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1
            assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_one_token_answers_have_no_tpot_and_still_draw(tmp_path: Path) -> None:
    """TPOT and ITL are absent everywhere: the panels that remain are drawn."""
    base = {"requests": 20, "rate": 4, "output_tokens": "fixed:1"}
    run_sweep(load_spec(None, base, {"chunk_size": [128, 512]}), tmp_path / "out")
    names = [path.name for path in plot_sweep(tmp_path / "out")]
    assert "chunk-size.png" in names
    assert "ttft-vs-tpot.png" not in names


def test_a_run_draws_latencies_load_and_its_busiest_moment(tmp_path: Path) -> None:
    config = load_config(None, {"requests": 30, "rate": 8, "input_tokens": "uniform:50:2000"})
    write_run(run_config(config), tmp_path / "run", steps=True)
    drawn = plot_run(tmp_path / "run")
    names = ["latencies.png", "load.png", "waterfall.png", "timeline.png"]
    assert [path.name for path in drawn] == names
    assert all(width_of(path) == 1600 for path in drawn)
    assert digests(plot_run(tmp_path / "run")) == digests(drawn)


@pytest.fixture(scope="module")
def two_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 requests of two clients, prompts before decodes, saved with their steps."""
    folder = tmp_path_factory.mktemp("run")
    config = {"workload": "bundled", "head": 60, "scheduler": "continuous"}
    write_run(run_config(load_config(None, config)), folder, steps=True)
    return folder


def test_a_window_is_drawn_and_clients_have_a_figure(two_clients: Path) -> None:
    drawn = plot_run(two_clients, (3_000_000_000, 4_000_000_000))
    names = ["latencies.png", "load.png", "clients.png", "waterfall.png", "timeline.png"]
    assert [path.name for path in drawn] == names


def test_a_window_is_cut_to_the_run(two_clients: Path) -> None:
    run = load_run(two_clients)
    assert run.steps is not None
    end_ns = round(run.steps["end_s"].iloc[-1] * 1e9)
    assert moment_of(run, (-(2**62), 2**62)).span == (0, end_ns)
    assert moment_of(run, (3_000_000_000, 3_001_000_000)).span == (3_000_000_000, 3_001_000_000)
    busiest = choose_moment(run)
    assert busiest is not None
    assert busiest.zero_ns == round(run.requests["arrival_s"].iloc[busiest.watched] * 1e9)


def test_a_row_is_cut_where_its_request_changes_state(two_clients: Path) -> None:
    """Colours of the first request's row: its phases in order, end to end."""
    run = load_run(two_clients)
    (row,) = phase_rows(run, [0])
    assert row.span[0] == round(run.requests["arrival_s"].iloc[0] * 1e9)
    axes = Figure().subplots()
    draw_rows(axes, [row], zero_ns=0, per=1_000_000)
    drawn = sorted(
        (path.get_extents().x0, path.get_extents().x1)
        for collection in axes.collections
        for path in collection.get_paths()
    )
    expected = [(part.start_ns / 1e6, part.end_ns / 1e6) for part in row.parts]
    assert np.array(drawn) == pytest.approx(np.array(expected))
    assert {entry.get_label() for entry in phase_legend([row], row.span)} >= {
        "prompt computed",
        "gets tokens",
        "stalled: in no step",
    }


def test_only_a_run_saved_with_its_steps_has_a_window(swept: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only a run has a window of time"):
        draw(swept, (0, 1))
    write_run(
        run_config(load_config(None, {"requests": 5, "rate": 4})), tmp_path / "run", steps=False
    )
    with pytest.raises(ConfigError, match="simulate again with --steps"):
        draw(tmp_path / "run", (0, 1))


def test_latency_throughput_needs_a_load(swept: Path, tmp_path: Path) -> None:
    assert not swept.joinpath("figures/latency-throughput.png").exists()
    grid = {"rate": [2, 8], "scheduler": ["continuous", "chunked"]}
    run_sweep(load_spec(None, {"requests": 30}, grid), tmp_path / "out")
    table, path = load_sweep(tmp_path / "out"), tmp_path / "latency-throughput.png"
    with house_style():
        assert draw_latency_throughput(table, path) == path
    assert width_of(path) == 1600


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rates x two schedulers x two budgets."""
    out = tmp_path_factory.mktemp("loaded") / "out"
    grid = {
        "rate": [2, 8],
        "scheduler": ["vllm", "chunked"],
        "max_num_batched_tokens": [256, 2048],
    }
    run_sweep(load_spec(None, {"requests": 30, "max_num_seqs": 64}, grid), out)
    return out


def test_figures_over_a_load_show_every_scheduler(loaded: Path, tmp_path: Path) -> None:
    """A line each, the first the widest; what else was swept is at each one's best, and said."""
    table = load_sweep(loaded)
    figures: list[Figure] = []
    savefig = Figure.savefig
    with house_style(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Figure, "savefig", lambda self, *a, **k: (figures.append(self), savefig(self, *a, **k))
        )
        draw_latency_throughput(table, tmp_path / "latency-throughput.png")
    (figure,) = figures
    names = {text.get_text() for legend in figure.legends for text in legend.get_texts()}
    assert {"vllm", "chunked"} <= names
    widths = [line.get_linewidth() for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert widths[0] > widths[1]
    told = "Each line has its best settings (most goodput on average): vllm with budget"
    assert any(text.get_text().replace("\xa0", " ").startswith(told) for text in figure.texts)
    sections = {section.title: section for section in sweep_page(loaded).sections}
    for title in ("What more load costs", "What the arrival rate changes"):
        assert any(word.replace("\xa0", " ").startswith(told) for word in sections[title].words)
        labels = {label for _, label, _ in sections[title].charts[0].legend}
        assert {"vllm", "chunked"} <= labels


def test_only_where_all_meet_the_slo_is_it_100_percent(swept: Path, tmp_path: Path) -> None:
    """3 of 10,000 do not: 99.97 % is no 100 %, in the map, the answer and the table."""
    copy = tmp_path / "swept"
    shutil.copytree(swept, copy)
    frame = pd.read_parquet(copy / "sweep.parquet")
    frame.loc[frame["status"] == "ok", "goodput_fraction"] = 0.9997
    frame.to_parquet(copy / "sweep.parquet")
    figures: list[Figure] = []
    with house_style(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(heatmap, "save", lambda figure, path: figures.append(figure))
        heatmap.draw_heatmap(load_sweep(copy), tmp_path / "goodput-heatmap.png")
    cells = [text.get_text() for axes in figures[0].axes for text in axes.texts]
    assert "99 %" in cells
    assert "100 %" not in cells
    page = sweep_page(copy)
    assert "(99.9 %)" in page.answer[0]
    assert all(dict(facts).get("within the SLO %") in (None, "99.9") for _, facts in page.rows)


def test_without_steps_a_run_has_no_timeline(tmp_path: Path) -> None:
    config = load_config(None, {"requests": 30, "rate": 8, "output_tokens": "fixed:1"})
    write_run(run_config(config), tmp_path / "run", steps=False)
    assert [path.name for path in plot_run(tmp_path / "run")] == ["latencies.png", "load.png"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no sweep\.parquet here"):
        plot_sweep(tmp_path)
    with pytest.raises(ConfigError, match=r"no summary\.json with requests\.parquet here"):
        plot_run(tmp_path)
