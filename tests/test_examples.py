"""Each program in experiments/examples prints exactly what stands in the .out file beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "experiments" / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


def test_there_are_examples() -> None:
    assert PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_prints_what_its_out_file_says(program: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        encoding="utf-8",
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == program.with_suffix(".out").read_text(encoding="utf-8")
