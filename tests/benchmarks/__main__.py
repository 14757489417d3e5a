"""`python -m tests.benchmarks [speed] [scale] [startup] [prices] [sweeps]`: all by default."""

from __future__ import annotations

import sys

from . import price_speed, scale, speed, startup, sweeps
from .report import write

BENCHMARKS = {
    "speed": speed.compare,
    "scale": scale.measure,
    "startup": startup.measure,
    "prices": price_speed.measure,
    "sweeps": sweeps.measure,
}

for name in sys.argv[1:] or BENCHMARKS:
    if name not in BENCHMARKS:
        sys.exit(f"no benchmark {name!r}: there are {', '.join(BENCHMARKS)}")
    BENCHMARKS[name]()
    write()
