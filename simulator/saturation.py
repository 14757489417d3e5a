"""Is this run overloaded? Then its means describe this run, and would be others in a longer one.

Judged while requests keep arriving; the time in which a run drains afterwards says nothing. Two
signs, each of which must be larger than chance: a queue at a sustainable load wanders too, but it
comes back, while the number of arrivals minus departures of a random stream of A requests
deviates by about sqrt(A).

1. The queue grows throughout: the mean number waiting never falls from a quarter of the arrivals'
   time to the next, by more than 2 sqrt(A) over the whole.
2. Requests finish slower than they arrive, where nothing waits because everybody is served at
   once: the same growth of the number in the system, if also in the second half completions
   lag arrivals by more than 2 sqrt(arrivals). Not judged before the first quarter's requests
   have had time to finish by half-time: a number in the system that rises from an empty start to
   its steady value is no overload.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np

from .intervals import Stays, accepted, in_system, or_end, waiting
from .result import Ints, Result
from .units import NS_PER_S
from .window import Span

CHANCE = 2.0
"""Growth counts beyond this many times the square root of the arrivals."""


def saturation(result: Result, span: Span) -> dict[str, object]:
    """`saturated`, and why (`reason`, None if it is not), with the rates that were compared.

    Rates are per second over the time in which requests kept arriving; growth in requests over
    that time. All None if that time is empty.
    """
    start_ns, end_ns = span.start_ns, span.arrivals_end_ns
    if end_ns <= start_ns:
        return {"saturated": False, "reason": None} | dict.fromkeys(
            ("offered_rate", "completion_rate", "waiting_growth", "in_system_growth")
        )
    system, queue = in_system(result), waiting(result)
    arrivals = _events(system.enter_ns, start_ns, end_ns)
    finished = _events(system.leave_ns, start_ns, end_ns)
    queue_growth, queue_rises = _growth(queue, start_ns, end_ns)
    system_growth, system_rises = _growth(system, start_ns, end_ns)
    chance = CHANCE * sqrt(arrivals)
    reason = None
    if queue_rises and queue_growth > chance:
        reason = (
            f"the queue keeps growing, by {queue_growth:,.0f} requests of {arrivals:,} arrivals"
        )
    elif system_rises and system_growth > chance and _lags(result, system, start_ns, end_ns):
        reason = (
            f"requests finish slower than they arrive: {finished:,} of {arrivals:,} in the time"
        )
    length_ns = end_ns - start_ns
    return {
        "saturated": reason is not None,
        "reason": reason,
        "offered_rate": arrivals * NS_PER_S / length_ns,
        "completion_rate": finished * NS_PER_S / length_ns,
        "waiting_growth": queue_growth,
        "in_system_growth": system_growth,
    }


def _events(sorted_ns: Ints, start_ns: int, end_ns: int) -> int:
    low, high = np.searchsorted(sorted_ns, [start_ns, end_ns])
    return int(high - low)


def _growth(stays: Stays, start_ns: int, end_ns: int) -> tuple[float, bool]:
    """Growth of a count over the time, from its means per quarter; and whether none is smaller."""
    edges = [start_ns + (end_ns - start_ns) * quarter // 4 for quarter in range(5)]
    means = [stays.area_ns(low, high) / max(high - low, 1) for low, high in pairwise(edges)]
    rises = all(later >= sooner for sooner, later in pairwise(means))
    return (means[3] - means[0]) * 4 / 3, rises


def _lags(result: Result, system: Stays, start_ns: int, end_ns: int) -> bool:
    middle_ns = (start_ns + end_ns) // 2
    log = result.requests
    early = accepted(result) & (log.arrival_ns >= start_ns)
    early &= log.arrival_ns < (start_ns + middle_ns) // 2
    left_ns = or_end(log.finish_ns[early], result)
    if not len(left_ns) or float(np.median(left_ns)) > middle_ns:
        return False
    arrivals = _events(system.enter_ns, middle_ns, end_ns)
    return arrivals - _events(system.leave_ns, middle_ns, end_ns) > CHANCE * sqrt(arrivals)
