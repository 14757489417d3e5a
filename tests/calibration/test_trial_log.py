"""Samples outlive the process that took them."""

from __future__ import annotations

from pathlib import Path

import pytest

from calibration.errors import CalibrationError
from calibration.grid import Shape
from calibration.trial import Trial
from calibration.trials import WHOLE, TrialLog

SHAPE = Shape(16, 0, 2, 100)
IDENTITY = {"model": "tiny", "seed": 0}


@pytest.fixture
def path(tmp_path):
    """Of a `.partial` file."""
    return tmp_path / "table.json.partial"


def test_a_resumed_log_has_all_samples_and_adds_to_them(path):
    log = TrialLog(path, IDENTITY, resume=False)
    log.add(SHAPE, {"qkv": Trial((1.0, 2.0)), "o": Trial((3.0, 4.0))})
    log.add(SHAPE, {WHOLE: Trial((9.0,))})
    log.skip(Shape(1, 0, 0, 0), "out of memory")
    again = TrialLog(path, IDENTITY, resume=True)
    again.add(SHAPE, {"qkv": Trial((5.0,)), "o": Trial((6.0,))})
    assert again.raw(SHAPE, is_whole=False) == {
        "qkv": Trial((1.0, 2.0, 5.0)),
        "o": Trial((3.0, 4.0, 6.0)),
    }
    assert again.whole(SHAPE) == Trial((9.0,))
    assert again.skipped == {Shape(1, 0, 0, 0): "out of memory"}


def test_a_line_that_a_kill_cut_is_dropped(path):
    log = TrialLog(path, IDENTITY, resume=False)
    log.add(SHAPE, {WHOLE: Trial((9.0,))})
    whole = path.read_bytes()
    log.add(SHAPE, {WHOLE: Trial((8.0,))})
    path.write_bytes(path.read_bytes()[:-5])
    assert TrialLog(path, IDENTITY, resume=True).whole(SHAPE) == Trial((9.0,))
    assert path.read_bytes() == whole


def test_a_log_of_something_else_is_not_resumed(path):
    TrialLog(path, IDENTITY, resume=False)
    with pytest.raises(CalibrationError, match="another model, device or setting"):
        TrialLog(path, {**IDENTITY, "seed": 1}, resume=True)


def test_without_resume_a_log_starts_empty(path):
    TrialLog(path, IDENTITY, resume=False).add(SHAPE, {WHOLE: Trial((9.0,))})
    assert TrialLog(path, IDENTITY, resume=False).whole(SHAPE) is None


def test_a_place_that_cannot_be_written_to_is_one_message() -> None:
    with pytest.raises(CalibrationError, match=r"cannot write /proc/t\.json\.partial: "):
        TrialLog(Path("/proc/t.json.partial"), {"model": "tiny"}, resume=False)


def test_a_folder_as_output_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from calibration.__main__ import main

    assert main(["--model", "tiny", "-o", str(tmp_path)]) == 2
    assert f"cannot write {tmp_path}: it is a folder, name a file" in capsys.readouterr().err
