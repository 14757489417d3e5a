"""Shortest predicted job first, worked out by hand. Times in ms."""

from __future__ import annotations

import numpy as np
import pytest

from costmodels import ConstantCostModel
from simulator import ConfigError, KVCache, simulate
from simulator.schedulers import SjfScheduler
from tests.timeline import asked, ms

PRICES = ConstantCostModel(prefill_ms=10, decode_ms=2)
ROOMY = KVCache(1000)


def test_the_prediction_decides_and_not_the_truth() -> None:
    """One seat. A until 14; then C (predicted 5, truly 3) before B (predicted 100, truly 1)."""
    trace = asked((0, 4, 3), (1, 4, 1), (2, 4, 3), predicted_output_tokens=np.array([9, 100, 5]))

    result = simulate(trace, SjfScheduler(max_num_seqs=1, predictor="trace"), PRICES, ROOMY)

    assert ms(result.requests.finish_ns) == [14, 38, 28]


def test_declared_limits_and_functions_predict_too() -> None:
    """By limit B (5) before C (50); a function of the sequence may say the opposite."""
    trace = asked((0, 4, 1), (1, 4, 1), (2, 4, 1), max_tokens=np.array([1, 5, 50]))

    for predictor, finish in (
        ("max_tokens", [10, 20, 30]),
        (lambda sequence: -sequence.max_tokens + 100, [10, 30, 20]),
    ):
        policy = SjfScheduler(max_num_seqs=1, predictor=predictor)
        assert ms(simulate(trace, policy, PRICES, ROOMY).requests.finish_ns) == finish


def test_a_prompt_token_counts_by_its_weight() -> None:
    """B: 40 prompt tokens, predicted 3; C: 4 and 5. Weighted 0.1 B is 7.0 and C 5.4; 0: 3 and 5."""
    trace = asked((0, 4, 1), (1, 40, 1), (2, 4, 1), predicted_output_tokens=np.array([1, 3, 5]))

    for weight, finish in ((0.1, [10, 30, 20]), (0.0, [10, 20, 30])):
        policy = SjfScheduler(max_num_seqs=1, prompt_weight=weight)
        assert ms(simulate(trace, policy, PRICES, ROOMY).requests.finish_ns) == finish


@pytest.mark.parametrize("leap", [True, False])
def test_short_arrival_overtakes_a_head_that_waits_for_blocks(leap: bool) -> None:
    """20 blocks of 1. A: prompt 10, output 8; B needs 15 from 1 on. C (3) arrives at 13 and fits.

    In the middle of what would have been a leap to A's end.
    """
    trace = asked((0, 10, 8), (1, 15, 1), (13, 3, 1))
    policy = SjfScheduler(prompt_weight=1.0)

    result = simulate(trace, policy, PRICES, KVCache(20, block_size=1), leap=leap)

    assert ms(result.requests.first_start_ns)[2] == 14


def test_what_a_preempted_request_generated_is_not_predicted_again() -> None:
    """Predicted 10, of which 4 are there: 6 to come, and 12 tokens to compute again."""
    from simulator import Sequence

    sequence = Sequence(0, 0, prompt_tokens=8, output_tokens=99)
    sequence.predicted_output_tokens, sequence.known_tokens = 10, 12

    assert SjfScheduler(prompt_weight=1.0).queue_key(sequence) == 18


def test_missing_prediction_and_unknown_predictor_are_said() -> None:
    trace = asked((0, 4, 1))

    with pytest.raises(ConfigError, match="request 0 has no predicted_output_tokens"):
        simulate(trace, SjfScheduler(predictor="trace"), PRICES, ROOMY)
    with pytest.raises(ConfigError, match="request 0 declares no max_tokens"):
        simulate(trace, SjfScheduler(predictor="max_tokens"), PRICES, ROOMY)
    with pytest.raises(ConfigError, match="did you mean trace"):
        SjfScheduler(predictor="trase")
