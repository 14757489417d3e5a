"""vLLM's policy beside the recorded schedules (`tests/vllm`): what leaps must not hide."""

from __future__ import annotations

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import KVCache, simulate
from simulator.schedulers import VllmScheduler
from tests.timeline import asked, ms


@pytest.mark.parametrize("leap", [True, False])
def test_urgent_arrival_overtakes_a_head_that_waits_for_blocks(leap: bool) -> None:
    """20 blocks of 1. A: prompt 10, output 8. B, less urgent, needs 15 blocks from 1 on and waits.

    C, as urgent as A, arrives at 13 during A's decode 12-14 and needs 3 of the 8 free blocks: it
    starts at 14 in the middle of what would have been a leap to A's end.
    """
    trace = asked((0, 10, 8), (1, 15, 1), (13, 3, 1), priority=np.array([0, 1, 0]))
    prices = ConstantCostModel(prefill_ms=10, decode_ms=2)

    result = simulate(
        trace,
        VllmScheduler(policy="priority"),
        prices,
        KVCache(20, block_size=1),
        async_scheduling=False,
        leap=leap,
    )

    assert ms(result.requests.first_start_ns)[2] == 14
