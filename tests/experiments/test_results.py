"""A results folder is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.results import json_text, results_folder
from simulator.errors import ConfigError

from .conftest import Runway


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_appear_only_when_all_are_written(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    with results_folder(out) as draft:
        (draft / "summary.json").write_text("{}")
        assert not out.exists()
    assert listing(tmp_path) == ["a", "a/b", "a/b/summary.json"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    def fail() -> None:
        with results_folder(tmp_path / "a" / "b") as draft:
            (draft / "summary.json").write_text("{}")
            raise failure

    with pytest.raises(failure):
        fail()
    assert listing(tmp_path) == []


def test_other_files_stay_and_stale_results_go(tmp_path: Path) -> None:
    for name in ("notes.txt", "steps.parquet", "summary.json"):
        (tmp_path / name).write_text("old")
    with results_folder(tmp_path) as draft:
        (draft / "summary.json").write_text("new")
    assert listing(tmp_path) == ["notes.txt", "summary.json"]
    assert (tmp_path / "summary.json").read_text() == "new"


def test_a_run_that_replaces_another_takes_its_figures_and_report_away(
    runway: Runway, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    runway("simulate", "--requests", 20, "--rate", 4, "--steps", "--quiet", "--out", out)
    for what in ("plot", "report", "trace"):
        assert runway(what, out).exit_code == 0
    assert {"figures", "figures/latencies.png", "report.html", "trace.json"} <= set(listing(out))
    (out / "notes.txt").write_text("mine")
    (out / "figures" / "mine.png").write_text("mine")
    refused = runway("simulate", "--requests", 0, "--out", out)
    assert refused.exit_code == 2
    assert (out / "report.html").exists(), "a run that was refused removes nothing"
    assert runway("simulate", "--requests", 9, "--rate", 4, "--quiet", "--out", out).exit_code == 0
    assert listing(out) == [
        *("config.yaml", "figures", "figures/mine.png", "notes.txt"),
        *("requests.parquet", "summary.json"),
    ]


def test_files_that_runway_did_not_write_stay(runway: Runway, tmp_path: Path) -> None:
    again = ("simulate", "--requests", 9, "--rate", 4, "--quiet", "--out", tmp_path / "out")
    runway(*again)
    mine = {"report.html": "<p>mine</p>", "trace.json": "[]"}
    for name, text in mine.items():
        (tmp_path / "out" / name).write_text(text)
    assert runway(*again).exit_code == 0
    assert {name: (tmp_path / "out" / name).read_text() for name in mine} == mine


def test_a_folder_with_the_results_of_a_sweep_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.parquet").write_text("")
    with pytest.raises(ConfigError, match="holds other results"), results_folder(tmp_path):
        pass


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigError, match="it is a file"), results_folder(tmp_path / "x"):
        pass
    with pytest.raises(ConfigError, match="cannot write results"), results_folder(tmp_path / "x/y"):
        pass


def test_json_is_strict() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"x": float("nan")})
