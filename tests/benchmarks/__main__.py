"""`python -m tests.benchmarks [NAME...]`: those named in `BENCHMARKS`, or all of them."""

from __future__ import annotations

import sys

from . import prefixes, price_speed, scale, speed, startup, sweeps
from .report import write

BENCHMARKS = {
    "speed": speed.compare,
    "prefixes": prefixes.measure,
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
