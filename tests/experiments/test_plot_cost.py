"""`runway plot cost`: numbers behind the figure by hand, and the file for every kind of table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from costmodels import Operator, OperatorGrids, OperatorsCostModel, load_cost_model, save_table
from costmodels.operators_table import TimedStep
from experiments.plots.cost_points import (
    Reach,
    batch_line,
    compared,
    datasheet_of,
    levels,
    on_one_device,
    prompt_line,
    reach_of,
    roofs_of,
)
from simulator.plan import StepShape

Runway = Callable[..., Result]
GRIDS = OperatorGrids(
    {
        "qkv": Operator(
            axis="tokens",
            points=((1, 10.0), (100, 100.0)),
            spread=((0.5, 7), (2.0, 9)),
            work=(2000, 4000, 40),
        )
    },
    (
        *((0, 0, 1, 64, 20.0), (0, 0, 1, 256, 30.0), (0, 0, 8, 64, 40.0), (0, 0, 8, 256, 60.0)),
        *((1, 0, 0, 0, 5.0), (100, 0, 0, 0, 50.0)),
    ),
    steps=(
        TimedStep(0, 0, 8, 256, 80.0, 1.0, 5, False),
        TimedStep(100, 0, 0, 0, 120.0, 1.0, 5, True),
    ),
)
MODEL = OperatorsCostModel(GRIDS, layers=1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with samples, whole steps and work."""
    path = tmp_path / "mine.json"
    save_table(MODEL.table, path)
    return path


def test_steps_are_compared_with_their_price() -> None:
    """8 decodes: 10 + 7 x 90 / 99 + 60 us; 100 prompt tokens: 100 + 50 us."""
    pairs = compared(MODEL, GRIDS.steps)
    assert pairs.measured_ms.tolist() == [0.08, 0.12]
    assert pairs.predicted_ms == pytest.approx([(70 + 630 / 99) / 1e3, 0.15], abs=1e-5)
    assert pairs.held_out.tolist() == [False, True]


def test_steps_of_one_device_are_compared_without_the_all_reduce() -> None:
    reduce = Operator(axis="bytes", bytes_per_token=64, calls=2, points=((64, 5.0), (6400, 50.0)))
    grids = replace(GRIDS, counted={**GRIDS.counted, "all_reduce": reduce})
    parallel = OperatorsCostModel(grids, layers=1)
    assert parallel.step_ns(StepShape((), 8, 2048)) > MODEL.step_ns(StepShape((), 8, 2048))
    found, wanted = (compared(model, GRIDS.steps).predicted_ms for model in (parallel, MODEL))
    assert found.tolist() == wanted.tolist()
    assert on_one_device(MODEL) is MODEL


def test_a_gemm_on_the_roofline_by_hand() -> None:
    """100 rows: 200,000 FLOP over 4,000 + 4,000 bytes, in 100 us."""
    (roof,) = roofs_of(GRIDS)
    assert roof.intensity[-1] == 25.0
    assert roof.flops[-1] == pytest.approx(2e9)


def test_lines_end_where_the_table_does() -> None:
    assert reach_of(MODEL.table) == Reach(100, 8, 256)
    assert prompt_line(MODEL, Reach(100, 8, 256), 0).counts[[0, -1]].tolist() == [1, 100]
    batches = batch_line(MODEL, Reach(100, 8, 256), 256)
    assert batches.counts.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert np.all(np.diff(batches.ms) > 0)
    assert reach_of(load_cost_model("b300-qwen3-32b-tp1").table) == Reach(8192, 32, 4789)
    assert reach_of(load_cost_model("lesson").table) == Reach(2048, 64, 8192)


@pytest.mark.parametrize(
    ("top", "least", "counts"), [(1, 1, [1]), (32, 1, [1, 4, 32]), (8, 16, [8])]
)
def test_lines_are_drawn_for_few_many_and_some(top: int, least: int, counts: list[int]) -> None:
    assert levels(top, least) == counts


def test_the_datasheet_is_that_of_the_device() -> None:
    found = datasheet_of(load_cost_model("b300-qwen3-32b-tp1").table)
    assert found == (2250e12, 8e12)
    assert datasheet_of(MODEL.table) is None


def test_a_table_with_samples_is_drawn_beside_it(table: Path, runway: Runway) -> None:
    result = runway("plot", "cost", table)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == f"drew {table.with_suffix('.png')}"
    again = table.with_name("again.png")
    assert runway("plot", "cost", table, "--out", again, "--quiet").stdout == ""
    assert again.read_bytes() == table.with_suffix(".png").read_bytes()


def test_a_table_without_samples_is_drawn(tmp_path: Path, runway: Runway) -> None:
    out = tmp_path / "figure.png"
    assert runway("plot", "cost", "b300-qwen3-32b-tp1", "--out", out).exit_code == 0
    assert out.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("cost", "lessen"), "'lessen' is unknown, did you mean lesson"),
        (("costs", "lesson"), "plot costs lesson: takes one folder, or cost and a table"),
        (("nowhere", "--out", "x.png"), "--out is for `runway plot cost TABLE`"),
    ],
)
def test_what_cannot_be_drawn_is_explained(
    words: tuple[str, ...], said: str, runway: Runway
) -> None:
    result = runway("plot", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
