"""A file to write is checked before the work, and is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.errors import ConfigError
from simulator.output import check_output, whole_file


def _write_half(path: Path, error: Exception) -> None:
    with whole_file(path) as draft:
        draft.write_text("half")
        raise error


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (".", "it is a folder, name a file"),
        ("folder", "it is a folder, name a file"),
        ("file/x.png", "file is a file, name a folder"),
        ("file/new/x.png", "file is a file, name a folder"),
        ("x.jpg", "the ending '.jpg', must have .png"),
        ("x", "the ending '', must have .png"),
        ("n" * 300 + ".png", "too long"),
        ("/proc/q.png", "cannot write /proc/q.png: "),
        ("/dev/null/q.png", "/dev/null is a file, name a folder"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    with pytest.raises(ConfigError) as refused:
        check_output(Path(name), endings=(".png",))
    assert str(refused.value).startswith(f"cannot write {name}: ")
    assert told in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_a_device_is_never_replaced() -> None:
    with pytest.raises(ConfigError, match="cannot write /dev/null: it is no regular file"):
        check_output(Path("/dev/null"))


def test_a_check_makes_nothing(tmp_path: Path) -> None:
    check_output(tmp_path / "new" / "x.PNG", endings=(".png",))
    assert not [*tmp_path.iterdir()]


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    place = tmp_path / "new" / "x.txt"
    with pytest.raises(ZeroDivisionError):
        _write_half(place, ZeroDivisionError())
    assert not [*place.parent.iterdir()]
    with whole_file(place) as draft:
        draft.write_text("whole")
        assert not place.exists()
    assert [(path.name, path.read_text()) for path in place.parent.iterdir()] == [
        ("x.txt", "whole")
    ]


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No space left"):
        _write_half(tmp_path / "x", OSError(28, "No space left on device"))
    assert not [*tmp_path.iterdir()]
