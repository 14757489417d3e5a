"""Figures and page of a sweep whose points are means over seeds."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from experiments.plots import plot_sweep
from experiments.plots.curves import draw_curves
from experiments.plots.samples import draw_samples
from experiments.plots.sweep_table import load_sweep
from experiments.plots.tradeoff import draw_tradeoff
from experiments.report import write_report
from experiments.report.chart import beside_names
from experiments.report.sweep_page import sweep_page
from experiments.sweep import load_spec, run_sweep

SWEEP = """
base: {requests: 10, input_tokens: "300", output_tokens: "10"}
grid: {rate: [2.0, 4.0]}
variants:
- {name: defaults, scheduler: vllm}
- {name: small chunks, scheduler: chunked, chunk_size: 128}
seeds: [0, 1, 2]
"""


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rates x two variants, three seeds each."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "asked.yaml").write_text(SWEEP)
    run_sweep(load_spec(folder / "asked.yaml"), folder / "out")
    return folder / "out"


@pytest.mark.filterwarnings("error")
def test_its_many_columns_are_read_without_a_warning(repeated: Path) -> None:
    assert plot_sweep(repeated)
    assert write_report(repeated).is_file()


def test_figures_say_that_points_are_means(
    repeated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The curves have a bar a point, which none of their axes cuts at the top."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    monkeypatch.setattr("experiments.plots.style.whole_file", lambda path: nullcontext(path))
    table = load_sweep(repeated)
    draw_curves(table, "variant", tmp_path / "variant.png")
    draw_tradeoff(table, tmp_path / "ttft-vs-tpot.png")

    for figure in figures:
        assert "mean over 3 seeds" in " ".join(text.get_text() for text in figure.texts)
    for axes in figures[0].axes:
        bars = [line for line in axes.lines if line.get_gid() == "interval"]
        assert len(bars) == 4
        assert all(max(bar.get_ydata()) < axes.get_ylim()[1] for bar in bars)


def test_the_page_says_what_its_numbers_are(repeated: Path) -> None:
    page = sweep_page(repeated)
    assert "Every number is the mean over 3 seeds." in page.answer[-1]
    assert " ± " in page.answer[0]
    points = next(section for section in page.sections if section.title == "All points")
    assert list(points.tables[0].heading).count("±") >= 7


def test_names_of_rows_stand_beside_the_axis_own_name() -> None:
    """A tick ends 6 pixels left of the plot; 20 pixels at the edge are the axis'."""
    for name in ("256", "small chunks", "some rather long name of a variant"):
        assert beside_names([name]) - 6 - 6.6 * len(name) > 20


def test_samples_tell_variants_apart_and_cut_no_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A colour and a shape a variant, named in the legend; every bar ends below the top."""
    (tmp_path / "asked.yaml").write_text(
        SWEEP.replace("grid: {rate: [2.0, 4.0]}", "samples: {count: 3, over: {rate: 2..40}}")
    )
    run_sweep(load_spec(tmp_path / "asked.yaml"), tmp_path / "out")
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    monkeypatch.setattr("experiments.plots.style.whole_file", lambda path: nullcontext(path))
    draw_samples(load_sweep(tmp_path / "out"), tmp_path / "samples.png")

    (figure,) = figures
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"defaults", "small chunks"} < set(names)
    for axes in figure.axes:
        marks = {(line.get_color(), line.get_marker()) for line in axes.lines}
        assert len(marks) == 2
        bars = [bar for each in axes.collections for bar in each.get_paths() if len(bar) == 2]
        assert bars
        assert all(bar.vertices[:, 1].max() < axes.get_ylim()[1] for bar in bars)
