"""How much of two cores a sweep uses: the same points by one process and by two."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from .processes import Run, run
from .report import write, write_row

RUNWAY = str(Path(sys.executable).with_name("runway"))
RATES = "5,5.5,6,6.5,7,7.5,8,8.5"
REQUESTS = 60_000
"""Enough for points of more than a second each."""
LIMIT = 0.9


def measure() -> None:
    """Write wall and CPU seconds of each, and two efficiencies.

    By the clock: time of one process / (2 x time of two). True on a machine with nothing else to
    do. By CPU time: of one process / of two, start-up of the workers and all they exchange
    included; what others do on the machine changes it little, but a core that waits is not seen.
    """
    write(f"Sweep of {len(RATES.split(','))} points, {REQUESTS:,} requests each")
    write_row(["", "wall s", "CPU s", "s a point"])
    with tempfile.TemporaryDirectory() as folder:
        one, two = (_sweep(jobs, folder) for jobs in (1, 2))
    points = len(RATES.split(","))
    for name, told in (("jobs 1", one), ("jobs 2", two)):
        cells = [f"{told.wall_s:.1f}", f"{told.cpu_s:.1f}", f"{told.cpu_s / points:.2f}"]
        write_row([name, *cells])
    write(f"efficiency on 2 cores by the clock {one.wall_s / (2 * two.wall_s):.2f}, limit {LIMIT}")
    write(f"efficiency by CPU time {one.cpu_s / two.cpu_s:.2f}")
    write(f"load of the machine now {os.getloadavg()[0]:.1f}: above 2 the clock tells nothing")


def _sweep(jobs: int, folder: str) -> Run:
    return run(
        [
            *(RUNWAY, "sweep", "--requests", str(REQUESTS), "--rate", RATES),
            *("--scheduler", "vllm", "--cost-model", "b300-qwen3-32b-tp1", "--no-figures"),
            *("--quiet", "--jobs", str(jobs), "--out", f"{folder}/{jobs}"),
        ]
    )
