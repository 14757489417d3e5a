"""The scene of U01 and U02: four streams decode every 8 ms, then a prompt of 2,048 tokens comes.

The streams' own prompts of one token take 4 x 10/256 = 0.15625 ms, so decode steps end at
0.15625 + 8 k. The prompt arrives exactly at the end of the third one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodels import LessonCostModel
from simulator import KVCache, Result, Scheduler, simulate
from tests.timeline import asked, tokens_ms

READY_MS = 24.15625
PROMPT = 4


@dataclass(frozen=True)
class Scene:
    """What happened, in ms since the prompt was ready.

    ticks: tokens of each stream from then on. gaps: between them, the one that spans the arrival
    included; until the prompt's first token is out, and after.
    """

    result: Result
    ttft: float
    ticks: list[float]
    gaps_until: list[float]
    gaps_after: list[float]


def scene(scheduler: Scheduler) -> Scene:
    """Four streams of 40 tokens and the prompt, under a policy; all streams see the same."""
    trace = asked(*[(0, 1, 40)] * 4, (READY_MS, 2048, 1))
    result = simulate(trace, scheduler, LessonCostModel(), KVCache(10_000))
    times = np.array([tokens_ms(result, row) for row in range(4)]) - READY_MS
    assert (times == times[0]).all()
    times = times[0][times[0] >= 0]
    ttft = tokens_ms(result, PROMPT)[0] - READY_MS
    gaps = np.diff(times)
    during = times[:-1] < ttft
    return Scene(result, ttft, times[1:].tolist(), gaps[during].tolist(), gaps[~during].tolist())
