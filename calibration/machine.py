"""Does something else use this CPU, and which threads and clock are steady in spite of it?

Threads of one GEMM wait for the slowest of them. Where other processes hold some of the CPUs, one
thread is faster than all, and its CPU time, which leaves out what the others got, is what its wall
time would be on a machine at rest.
"""

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
BUSY = 1.05
"""Wall time over CPU time of one thread from which others are said to use the CPU."""

Given = tuple[int | None, str | None]
"""Threads and the name of a clock, None where nothing is said."""


def steady(*given: Given) -> tuple[int, str]:
    """Threads of torch and clock for a CPU: as given, the first first, or as the machine is now.

    At rest: the fastest number of threads and the wall clock. Busy: one thread and its CPU time.
    """
    threads = next((threads for threads, _ in given if threads), None)
    clock = next((clock for _, clock in given if clock), None)
    if threads is None or (clock is None and threads == 1):
        call = _gemm()
        is_busy = _slowdown(call) > BUSY
        if threads is None:
            threads = 1 if is_busy or clock == "cpu" else _fastest_threads(call)
        if clock is None:
            clock = "cpu" if is_busy and threads == 1 else "wall"
    return threads, clock or "wall"


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


def _fastest_threads(call: Callable[[], object]) -> int:
    """All threads, half, or one."""
    before = torch.get_num_threads()
    counts = sorted({before, max(before // 2, 1), 1}, reverse=True)
    try:
        return fastest(counts, lambda threads: _call_ns(threads, call)[0])
    finally:
        torch.set_num_threads(before)


def _slowdown(call: Callable[[], object]) -> float:
    """Wall time over CPU time of one thread's work, over all visits."""
    before = torch.get_num_threads()
    try:
        visits = [_call_ns(1, call) for _ in range(VISITS)]
    finally:
        torch.set_num_threads(before)
    return sum(wall for wall, _ in visits) / max(sum(cpu for _, cpu in visits), 1.0)


def _gemm() -> Callable[[], object]:
    """A GEMM as of a decode step."""
    rows, weights = torch.randn(ROWS, INNER), torch.randn(OUTER, INNER)
    return lambda: F.linear(rows, weights)


def _call_ns(threads: int, call: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU time of a call, nanoseconds."""
    torch.set_num_threads(threads)
    call()
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - wall) / CALLS, (time.thread_time_ns() - cpu) / CALLS


def _median(times_ns: Sequence[float]) -> float:
    return Trial(tuple(times_ns)).median_ns
