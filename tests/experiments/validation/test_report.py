"""Errors of a validation, against hand-worked numbers, and the figures and files it writes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from experiments import validation
from experiments.cli import main
from experiments.plots.validation import draw_validation
from experiments.validation.report import DatasetReport, Row, Samples, compared
from simulator.errors import ConfigError

PAIRS = Samples("a", "ttft_ms", np.array([10.0, 20.0, 30.0]), np.array([11.0, 18.0, 33.0]), 2.0)


def report() -> DatasetReport:
    more = Samples("b", "ttft_ms", np.array([100.0, 400.0]), np.array([90.0, 440.0]), 4.0)
    rows = [row for s in (PAIRS, more) for row in compared(s, fitted_on="nothing", note="by hand")]
    return DatasetReport("toy", "made by hand", tuple(rows), (PAIRS, more), ("a note",))


def test_errors_are_relative_to_what_was_measured() -> None:
    """Means 20 and 62/3: +1/30. Medians 20 and 18: -1/10. Pairs off by 1/10 each: MAPE 1/10."""
    rows = {row.statistic: row for row in compared(PAIRS, fitted_on="nothing")}
    assert rows["mean"].error == pytest.approx(1 / 30)
    assert rows["p50"].error == pytest.approx(-1 / 10)
    assert rows["mape"].error == pytest.approx(1 / 10)
    assert (rows["mape"].measured, rows["p50"].measured, rows["p50"].n) == (None, 20.0, 3)


def test_an_error_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match="run a: the error of ttft_ms mean is nan"):
        Row("run a", "ttft_ms", "mean", 1.0, 1.0, float("nan"), 1, "nothing")


def test_each_quantity_gets_a_figure_and_all_of_them_one_by_load(tmp_path: Path) -> None:
    figures = draw_validation(report(), tmp_path)
    assert [figure.name for figure in figures] == ["toy-ttft-ms.png", "toy-error-by-load.png"]
    assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)


def test_one_load_gives_no_figure_by_load(tmp_path: Path) -> None:
    [figure] = draw_validation(replace(report(), samples=(PAIRS,)), tmp_path)
    assert figure.name == "toy-ttft-ms.png"


def test_a_folder_of_no_known_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no known dataset; known are"):
        validation.validate(tmp_path)
    with pytest.raises(ConfigError, match="is not a folder"):
        validation.validate(tmp_path / "absent")


def test_the_command_writes_report_rows_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validation, "validate", lambda _: report())
    out = tmp_path / "out"
    ran = CliRunner().invoke(main, ["validate", str(tmp_path), "--out", str(out), "--json"])
    assert ran.exit_code == 0, ran.output
    [held] = json.loads((out / "report.json").read_text())["datasets"]
    assert json.loads(ran.output)["datasets"] == [held]
    assert (held["dataset"], len(held["rows"]), held["notes"]) == ("toy", 10, ["a note"])
    assert len((out / "rows.csv").read_text().splitlines()) == 11
    drawn = sorted(path.name for path in (out / "figures").iterdir())
    assert drawn == ["toy-error-by-load.png", "toy-ttft-ms.png"]


def test_bad_input_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = CliRunner().invoke(main, ["validate", str(tmp_path / "absent"), "--out", str(out)])
    assert ran.exit_code == 2
    assert "is not a folder" in ran.stderr
    assert not out.exists()
