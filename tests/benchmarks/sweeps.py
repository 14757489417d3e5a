"""How much of two cores a sweep uses: the same points by one process and by two."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from statistics import median

from .processes import Run, run
from .report import middle, write, write_row

RUNWAY = str(Path(sys.executable).with_name("runway"))
RATES = "5,5.5,6,6.5,7,7.5,8,8.5"
REQUESTS = (50_000, 150_000)
"""For points of little more than a second each, on one core of a shared server CPU; and longer."""
ROUNDS = 5
LIMIT = 0.9


def measure() -> None:
    """Write wall and CPU seconds, and the efficiencies, for short points and for longer ones."""
    for requests in REQUESTS:
        _compare(requests)
    write(f"load of the machine now {os.getloadavg()[0]:.1f}: above 2 the clock tells nothing")


def _compare(requests: int) -> None:
    """One process and two take turns; the efficiency is the median of the rounds.

    By the clock: time of one process / (2 x time of two). True on a machine with nothing else to
    do. By CPU time: of one process / of two, start-up of the workers and all they exchange
    included; what others do on the machine changes it little, but a core that waits is not seen.
    """
    points = len(RATES.split(","))
    write(f"Sweep of {points} points, {requests:,} requests each")
    write_row([f"median of {ROUNDS}", "wall s", "CPU s", "CPU s a point"], width=22)
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            (_sweep(requests, 1, f"{folder}/{r}-1"), _sweep(requests, 2, f"{folder}/{r}-2"))
            for r in range(ROUNDS)
        ]
    for name, runs in zip(("jobs 1", "jobs 2"), zip(*rounds, strict=True), strict=True):
        cpu_s = median(run.cpu_s for run in runs)
        cells = [middle([run.wall_s for run in runs]), f"{cpu_s:.2f}", f"{cpu_s / points:.2f}"]
        write_row([name, *cells], width=22)
    clock = middle([one.wall_s / (2 * two.wall_s) for one, two in rounds], 3)
    cpu_time = middle([one.cpu_s / two.cpu_s for one, two in rounds], 3)
    write(f"efficiency on 2 cores by the clock {clock}, limit {LIMIT}; by CPU time {cpu_time}")


def _sweep(requests: int, jobs: int, folder: str) -> Run:
    return run(
        [
            *(RUNWAY, "sweep", "--requests", str(requests), "--rate", RATES),
            *("--scheduler", "vllm", "--cost-model", "b300-qwen3-32b-tp1", "--no-figures"),
            *("--quiet", "--jobs", str(jobs), "--out", folder),
        ]
    )
