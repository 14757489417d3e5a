"""Whole commands as a user feels them: start of the interpreter to files on disk."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from .loads import AZURE
from .processes import run
from .report import middle, write, write_row

REPETITIONS = 5
RUNWAY = str(Path(sys.executable).with_name("runway"))


def measure(repetitions: int = REPETITIONS) -> None:
    """Write wall and CPU seconds and peak memory of each command."""
    write(f"Whole processes, median (fastest-slowest) of {repetitions} runs after one warm-up")
    write_row(["", "wall s", "CPU s", "peak GB", "limit s"], width=20)
    with tempfile.TemporaryDirectory() as folder:
        _write_command("runway --help", ["--help"], "0.3", repetitions)
        if not AZURE.exists():
            write("no Azure trace beside the repository: `runway simulate` is not measured")
            return
        simulate = ["simulate", "--quiet", "--trace", str(AZURE), "--out"]
        _write_command("simulate, Azure", [*simulate, f"{folder}/RUN"], "3", repetitions)


def _write_command(name: str, arguments: list[str], limit: str, repetitions: int) -> None:
    """RUN in an argument is another name each time: results are never written over."""
    runs = [
        run([RUNWAY, *(each.replace("RUN", str(repetition)) for each in arguments)])
        for repetition in range(repetitions + 1)
    ][1:]
    wall, cpu, peak = ([getattr(each, f) for each in runs] for f in ("wall_s", "cpu_s", "peak_gb"))
    write_row([name, middle(wall), middle(cpu), middle(peak), limit], width=20)
