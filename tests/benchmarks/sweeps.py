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
REQUESTS = 150_000
"""Enough for points of more than a second each, on a machine several times as fast too."""
ROUNDS = 3
LIMIT = 0.9


def measure() -> None:
    """Write wall and CPU seconds of each, and two efficiencies.

    One process and two take turns, and the quickest of each counts: what else runs on the machine
    only ever adds.

    By the clock: time of one process / (2 x time of two). True on a machine with nothing else to
    do. By CPU time: of one process / of two, start-up of the workers and all they exchange
    included; what others do on the machine changes it little, but a core that waits is not seen.
    """
    write(f"Sweep of {len(RATES.split(','))} points, {REQUESTS:,} requests each")
    write_row([f"quickest of {ROUNDS}", "wall s", "CPU s", "s a point"])
    with tempfile.TemporaryDirectory() as folder:
        rounds = [[_sweep(jobs, f"{folder}/{r}-{jobs}") for jobs in (1, 2)] for r in range(ROUNDS)]
    walls = [min(each, key=lambda run: run.wall_s) for each in zip(*rounds, strict=True)]
    busy = [min(each, key=lambda run: run.cpu_s) for each in zip(*rounds, strict=True)]
    points = len(RATES.split(","))
    for name, wall, cpu in zip(("jobs 1", "jobs 2"), walls, busy, strict=True):
        cells = [f"{wall.wall_s:.1f}", f"{cpu.cpu_s:.1f}", f"{cpu.cpu_s / points:.2f}"]
        write_row([name, *cells])
    clock, cpu_time = walls[0].wall_s / (2 * walls[1].wall_s), busy[0].cpu_s / busy[1].cpu_s
    write(f"efficiency on 2 cores by the clock {clock:.2f}, limit {LIMIT}")
    write(f"efficiency by CPU time {cpu_time:.2f}")
    write(f"load of the machine now {os.getloadavg()[0]:.1f}: above 2 the clock tells nothing")


def _sweep(jobs: int, folder: str) -> Run:
    return run(
        [
            *(RUNWAY, "sweep", "--requests", str(REQUESTS), "--rate", RATES),
            *("--scheduler", "vllm", "--cost-model", "b300-qwen3-32b-tp1", "--no-figures"),
            *("--quiet", "--jobs", str(jobs), "--out", folder),
        ]
    )
