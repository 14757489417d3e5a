"""Steps with prompts are quicker after a pause, if the cost model says so. Times in ms."""

from __future__ import annotations

import pytest

from costmodels import StepsCostModel
from simulator import ChunkedPrefillScheduler, KVCache, simulate
from tests.simulator.facts import assert_same
from tests.timeline import asked, steps_ms

BOOSTED = StepsCostModel(
    step_ms=10, compute_ms_per_token=1, boost_saving_ms=8, boost_recovery_ms=40
)


@pytest.mark.parametrize("leap", [True, False])
def test_the_first_prompt_and_one_after_a_pause_save_and_the_next_in_a_row_does_not(
    leap: bool,
) -> None:
    """A prompt of 40 tokens takes 50. The first saves 8: 0-42. The second has waited for it and
    follows at once, beside a decode: 51, 42-93. Then both decode: 12, 93-105.

    The third starts at 133, 40 after the last step with prompts: it saves 8 x 40 / 80 = 4.
    """
    trace = asked((0, 40, 3), (1, 40, 2), (133, 40, 1))

    result = simulate(trace, ChunkedPrefillScheduler(64, 8), BOOSTED, KVCache(100), leap=leap)

    assert steps_ms(result) == [(0, 42), (42, 93), (93, 105), (133, 179)]


def test_leaps_and_steps_save_the_same() -> None:
    trace = asked(*((7 * k, 11 + 5 * k % 40, 1 + k % 9) for k in range(40)))

    leaped, stepped = (
        simulate(trace, ChunkedPrefillScheduler(64, 8), BOOSTED, KVCache(40), leap=leap)
        for leap in (True, False)
    )

    assert_same(leaped, stepped)
