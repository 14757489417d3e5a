"""Does the scheduler plan the steps of a recording, if each takes the time it took?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from calibration.engine_log import EngineLog
from calibration.live.work import StepWork, Watched
from simulator import KVCache, simulate
from simulator.plan import StepShape
from simulator.schedulers.vllm import VllmScheduler
from simulator.units import NS_PER_MS


def scheduler_of(log: EngineLog) -> VllmScheduler:
    """The policy with the recording's limits."""
    limits = log.limits
    return VllmScheduler(
        limits.max_num_batched_tokens,
        limits.max_num_seqs,
        long_prefill_token_threshold=limits.long_prefill_token_threshold,
    )


def kv_of(log: EngineLog) -> KVCache:
    """A KV cache as large as the recording's."""
    return KVCache(log.limits.kv_blocks, log.limits.block_size)


def differences_given_times(log: EngineLog) -> int:
    """Steps in which scheduler and recording differ, if every step takes the time it took.

    Requests are seen when the engine saw them, at the first step that began after their arrival.
    Compared are who computes how many tokens, how many were preempted, and the free blocks.
    """
    starts = np.array([step.start_ns for step in log.steps], dtype=np.int64)
    seen = np.minimum(np.searchsorted(starts, log.trace.arrival_ns), len(starts) - 1)
    trace = log.trace.changed("arrivals as the engine saw them", arrival_ns=starts[seen])
    watched = Watched(scheduler_of(log))
    prices = RecordedTimes(log, watched)
    result = simulate(trace, watched, prices, kv_of(log), async_scheduling=False, leap=False)
    free: list[int] = (log.limits.kv_blocks - result.steps.used_blocks).tolist()
    preempted: list[int] = result.steps.preempted.tolist()
    ours = zip(map(batch_of, watched.work), preempted, free, strict=True)
    theirs = [(step.batch, len(step.preempted), step.free_blocks) for step in log.steps]
    same = sum(one == other for one, other in zip(ours, theirs, strict=False))
    return max(len(free), len(theirs)) - same


def batch_of(work: StepWork) -> dict[int, int]:
    """Row -> tokens computed."""
    chunks = {chunk.sequence.row: chunk.new for chunk in work.chunks}
    return {sequence.row: 1 for sequence, _ in work.decodes} | chunks


class RecordedTimes:
    """A cost model whose k-th step lasts until the recording's next one was planned.

    Where the engine was idle then, until the step's own end; beyond the recording, 1 ms.
    """

    needs_longest_context = False

    def __init__(self, log: EngineLog, watched: Watched) -> None:
        self._watched = watched
        self._ends = [
            after.start_ns if after.duration_ns == after.end_ns - step.end_ns else step.end_ns
            for step, after in pairwise(log.steps)
        ]
        self._ends.append(log.steps[-1].end_ns)

    def step_ns(self, shape: StepShape) -> int:
        """From the planning to where the recording goes on."""
        work = self._watched.work
        if len(work) > len(self._ends):
            return NS_PER_MS
        return max(1, self._ends[len(work) - 1] - work[-1].now_ns)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """One step: the engine is told not to leap."""
        assert steps == 1
        return np.array([self.step_ns(shape)], dtype=np.int64)
