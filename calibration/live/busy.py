"""How much of a machine's CPUs other processes use, by the counters of a Linux kernel."""

from __future__ import annotations

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
WORKING = (0, 1, 2, 5, 6)
"""Of the counters of a `cpu` line: user, nice, system, irq, softirq. Not idle, iowait, steal."""


class OtherProcesses:
    """CPUs that others used since this was made, on average; None where nothing tells."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._begun = self._now()

    def cpus(self) -> float | None:
        """CPU seconds of others per second."""
        begun, now = self._begun, self._now()
        if begun is None or now is None or now[0] <= begun[0]:
            return None
        wall, working, own = (later - sooner for later, sooner in zip(now, begun, strict=True))
        return max(0.0, (working - own) / wall)

    def _now(self) -> tuple[float, float, float] | None:
        """Wall time, CPU time of the machine and of this process, seconds."""
        try:
            line = self._stat.read_text(encoding="utf-8").splitlines()[0]
        except (OSError, IndexError):
            return None
        counters = [int(word) for word in line.split()[1:]]
        working = sum(counters[i] for i in WORKING) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), working, time.process_time()
