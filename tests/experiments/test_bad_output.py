"""Whatever place a command is told to write to: one line on stderr, exit code 2, nothing left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Runway = Callable[..., Result]
SMALL = ("--requests", "20", "--rate", "4", "--cost-model", "lesson", "--kv-blocks", "4000")


def refusal_of(result: Result) -> str:
    """The one line of a refusal."""
    assert result.exit_code == 2, (result.stdout, result.stderr, result.exception)
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command runs in, with one file."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "tiny.json").write_text("{}")
    monkeypatch.chdir(folder)
    return folder


BAD = ("/proc/q.png", "tiny.json/x.png", ".")


@pytest.mark.parametrize("out", [*BAD, "q.jpg", "q.xyz", "q"])
def test_plot_cost(runway: Runway, place: Path, out: str) -> None:
    said = refusal_of(runway("plot", "cost", "lesson", "--out", out))
    assert f"cannot write {out}: " in said
    assert [path.name for path in place.iterdir()] == ["tiny.json"]


@pytest.mark.parametrize("out", BAD)
@pytest.mark.parametrize("command", ["report", "trace"])
def test_report_and_trace(runway: Runway, place: Path, command: str, out: str) -> None:
    assert runway("simulate", *SMALL, "--steps", "--out", "run").exit_code == 0
    assert f"cannot write {out}: " in refusal_of(runway(command, "run", "-o", out))


@pytest.mark.parametrize("out", BAD)
@pytest.mark.parametrize("log", ["--from-steps", "--from-requests"])
def test_a_fit_is_refused_before_its_log_is_read(
    runway: Runway, place: Path, log: str, out: str
) -> None:
    said = refusal_of(runway("calibrate", log, "absent.csv", "-o", out))
    assert f"cannot write {out}: " in said


def test_a_calibration_is_refused_before_it_measures(runway: Runway, place: Path) -> None:
    said = refusal_of(runway("calibrate", "--model", "absent", "-o", "/proc/fit.json"))
    assert "cannot write /proc/fit.json: " in said
    said = refusal_of(
        runway("calibrate", "--from-steps", "absent.csv", "-o", "fit.yaml", "--figure", "fit.jpg")
    )
    assert "the ending '.jpg', must have .png" in said


def test_figures_that_cannot_be_written_are_one_message(runway: Runway, place: Path) -> None:
    assert runway("simulate", *SMALL, "--out", "run").exit_code == 0
    (place / "run" / "figures").touch()
    assert "figures is a file, name a folder" in refusal_of(runway("plot", "run"))


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", *SMALL),
        ("sweep", *SMALL, "--chunk-size", "256,512", "--jobs", "1"),
        ("search", *SMALL, "--slo", "ttft=5s", "--jobs", "1"),
    ],
    ids=lambda command: str(command[0]),
)
def test_a_file_where_a_folder_is_wanted(
    runway: Runway, place: Path, command: tuple[str, ...]
) -> None:
    said = refusal_of(runway(*command, "--out", "tiny.json"))
    assert said == "Error: cannot write results to tiny.json: it is a file, give a folder\n"


def test_a_results_folder_as_input_names_its_file(runway: Runway, place: Path) -> None:
    assert runway("simulate", *SMALL, "--out", "run").exit_code == 0
    said = refusal_of(runway("simulate", "run", "--out", "again"))
    assert said == "Error: run: is a folder, name a YAML file, such as run/config.yaml\n"
    assert refusal_of(runway("simulate", ".")) == "Error: .: is a folder, name a YAML file\n"


@pytest.mark.parametrize("window", [("--from-s", "9000"), ("--from-s", "-5", "--to-s", "-1")])
def test_a_window_beyond_the_run_is_refused(
    runway: Runway, place: Path, window: tuple[str, ...]
) -> None:
    assert runway("simulate", *SMALL, "--steps", "--out", "run").exit_code == 0
    said = refusal_of(runway("plot", "run", *window))
    assert said.startswith("Error: run: no step in this window, its steps are from ")
    assert "change --from-s or --to-s" in said
    assert not (place / "run" / "figures").exists()
    assert runway("plot", "run", "--from-s", "1").exit_code == 0
