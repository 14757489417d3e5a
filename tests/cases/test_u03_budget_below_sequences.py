"""U03: a token budget below the number of sequences is refused before anything is simulated.

What a sweep and the command line make of it is tested with them (`tests/experiments`).
"""

from __future__ import annotations

import pytest

from simulator import (
    AlternatingScheduler,
    ChunkedPrefillScheduler,
    ConfigError,
    ContinuousScheduler,
    Scheduler,
)
from simulator.schedulers import VllmScheduler

BUDGETED = [AlternatingScheduler, ChunkedPrefillScheduler, ContinuousScheduler, VllmScheduler]


@pytest.mark.parametrize("policy", BUDGETED)
def test_both_numbers_and_both_ways_out_are_named(policy: type[Scheduler]) -> None:
    with pytest.raises(ConfigError) as error:
        policy(3, 4)

    message = str(error.value)
    assert "max_num_batched_tokens 3 is below max_num_seqs 4" in message
    assert "raise max_num_batched_tokens or lower max_num_seqs" in message
    policy(4, 4)


@pytest.mark.parametrize("policy", BUDGETED)
@pytest.mark.parametrize("budget", [0, -1, 2.5, "abc"])
def test_budgets_that_are_no_budget_are_refused(policy: type[Scheduler], budget: object) -> None:
    with pytest.raises(ConfigError, match=rf"max_num_batched_tokens is {budget!r}, must be"):
        policy(budget, 4)
