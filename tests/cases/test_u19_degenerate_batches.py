"""U19: degenerate batches agree, waiting is part of TTFT, load changes reach running requests."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodels import ConstantCostModel
from simulator import (
    ChunkedPrefillScheduler,
    ContinuousScheduler,
    KVCache,
    Scheduler,
    StaticScheduler,
    StepShape,
    simulate,
)
from simulator.metrics import summarize
from simulator.units import NS_PER_MS
from tests.timeline import asked, ms, tokens_ms

ROOMY = KVCache(1000)


class CheaperAlone:
    """Prefill 80; decode 8, but 6 when only one stream decodes."""

    needs_longest_context = False

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, ns."""
        decode = 0 if not shape.decode_seqs else 6 if shape.decode_seqs == 1 else 8
        return (80 * bool(shape.chunks) + decode) * NS_PER_MS

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """All the same, ns."""
        return np.full(steps, self.step_ns(shape))


@pytest.mark.parametrize(
    "scheduler",
    [StaticScheduler(1), ContinuousScheduler(2048, 1), ChunkedPrefillScheduler(2048, 1)],
)
def test_one_at_a_time_all_policies_are_the_same(scheduler: Scheduler) -> None:
    """Prefill 80 + 4 decodes of 8 = 112 each."""
    trace = asked(*[(0, 100, 5)] * 3)

    result = simulate(trace, scheduler, ConstantCostModel(prefill_ms=80, decode_ms=8), ROOMY)

    assert ms(result.requests.first_token_ns) == [80, 192, 304]
    assert ms(result.requests.finish_ns) == [112, 224, 336]


def test_last_partial_static_batch_runs() -> None:
    """Ten requests of one token, batches of 4, step 40: 4, 4, 2; mean TTFT 72."""
    prices = ConstantCostModel(prefill_ms=40, decode_ms=8)

    result = simulate(asked(*[(0, 100, 1)] * 10), StaticScheduler(4), prices, ROOMY)

    assert result.steps.prefill_seqs.tolist() == [4, 4, 2]
    assert ms(result.requests.first_token_ns) == [40] * 4 + [80] * 4 + [120] * 2
    assert summarize(result)["ttft_ms"]["mean"] == 72


def test_arrival_changes_the_pace_of_a_running_request() -> None:
    """Prompt first, two seats. R1 at 0; R2 at 83, during a step, so it waits 3.

    R1: 80, 86, then R2's prompt 86-166, both 174, 182, 190 (R1 is done), R2 alone 196.
    """
    trace = asked((0, 100, 5), (83, 100, 5))

    result = simulate(trace, ContinuousScheduler(2048, 2), CheaperAlone(), ROOMY)

    assert tokens_ms(result, 0) == [80, 86, 174, 182, 190]
    assert tokens_ms(result, 1) == [166, 174, 182, 190, 196]
    queue_ns = result.requests.first_start_ns - result.requests.arrival_ns
    assert ms(queue_ns) == [0, 3]
    assert ms(result.requests.first_token_ns - result.requests.arrival_ns) == [80, 83]
