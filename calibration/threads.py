"""How many threads of torch to time a CPU with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it

from .trial import Trial

ROWS, INNER, OUTER = 16, 1024, 2048
VISITS, CALLS = 7, 12
WORTH_IT = 0.97
"""Fewer threads are taken where they need less than this share of the time."""


def fastest_threads() -> int:
    """Threads with which a GEMM of a decode step is fastest right now: all, half, or one.

    Threads of one GEMM wait for the slowest of them: where other processes hold some of the CPUs,
    fewer threads are faster, and steadier by far.
    """
    before = torch.get_num_threads()
    rows, weights = torch.randn(ROWS, INNER), torch.randn(OUTER, INNER)
    try:
        return fastest(
            sorted({before, max(before // 2, 1), 1}, reverse=True),
            lambda threads: _call_ns(threads, lambda: F.linear(rows, weights)),
        )
    finally:
        torch.set_num_threads(before)


def fastest(counts: Sequence[int], lasts_ns: Callable[[int], float]) -> int:
    """The count whose median time is lowest; an earlier one unless a later is clearly faster."""
    times: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(VISITS):
        for count in counts:
            times[count].append(lasts_ns(count))
    best = counts[0]
    for count in counts[1:]:
        if _median(times[count]) < WORTH_IT * _median(times[best]):
            best = count
    return best


def _median(times_ns: Sequence[float]) -> float:
    return Trial(tuple(times_ns)).median_ns


def _call_ns(threads: int, call: Callable[[], object]) -> float:
    torch.set_num_threads(threads)
    call()
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - start) / CALLS
