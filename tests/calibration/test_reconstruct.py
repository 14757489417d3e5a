"""Token pairs and longest contexts, worked out from sums and variances."""

import numpy as np
import pytest

from calibration.reconstruct import longest_context_of, prefill_of

from .conftest import log_of
from .serving import random_load, serve


def test_pairs_of_a_whole_prompt():
    """100 x (0 + 50)."""
    prefill = prefill_of(log_of([([(100, 0, 100)], [])]))
    assert prefill.pairs.tolist() == [5000.0]
    assert prefill.finished_tokens.tolist() == [100.0]


def test_pairs_of_a_prompt_in_two_chunks():
    """60 x 30 = 1800, then 40 x (60 + 20) = 3200: together 100 x 50."""
    log = log_of([([(100, 0, 60)], []), ([(100, 60, 40)], [])])
    prefill = prefill_of(log)
    assert prefill.pairs.tolist() == [1800.0, 3200.0]
    assert prefill.finished.tolist() == [0.0, 1.0]


def test_pairs_of_prompts_that_share_a_step_with_a_cut_one():
    """30 x 15 + 50 x 25 + 20 x 10 = 1900; the 300-token prompt's length shows later, its
    attention in this step never needs it: the next step's decodes tell the finished lengths."""
    log = log_of(
        [
            ([(30, 0, 30), (50, 0, 50), (300, 0, 20)], []),
            ([(300, 20, 98)], [30, 50]),
            ([(300, 118, 182)], [31, 51]),
        ]
    )
    prefill = prefill_of(log)
    assert prefill.exact.all()
    assert prefill.pairs == pytest.approx([1900, 98 * (20 + 49), 182 * (118 + 91)])


def test_a_gap_in_the_counter_ends_a_prompt():
    """The second step is not the next one: nothing is carried into it."""
    log = log_of([([(100, 0, 60)], []), ([(100, 60, 40)], [])], counters=[0, 5])
    assert prefill_of(log).finished.tolist() == [1.0, 1.0]


def test_longest_context_follows_the_longest_until_it_leaves():
    """Contexts 10 and 90 join one by one; the long one leaves, and a 40 comes."""
    log = log_of(
        [
            ([(10, 0, 10)], []),
            ([(90, 0, 90)], [10]),
            ([], [11, 90]),
            ([(40, 0, 40)], [12, 91]),
            ([], [13, 40]),
        ]
    )
    assert longest_context_of(log, prefill_of(log)).tolist() == [0, 10, 90, 91, 40]


def test_longest_context_without_a_history_stays_within_what_mean_and_variance_allow():
    contexts = [10, 20, 30, 500]
    log = log_of([([], contexts)])
    mean, deviation = np.mean(contexts), np.std(contexts)
    (longest,) = longest_context_of(log, prefill_of(log))
    assert mean + deviation / 3**0.5 <= longest <= mean + deviation * 3**0.5


@pytest.mark.parametrize("seed", range(5))
def test_reconstruction_of_a_served_load(seed):
    """A small closed load: pairs exact where the log determines them, which is nearly always;
    the longest context right in nine steps of ten."""
    served = serve(*random_load(seed), budget=256, max_seqs=16)
    log = log_of(served.steps)
    prefill = prefill_of(log)
    assert prefill.exact.mean() > 0.97
    exact = prefill.exact
    assert prefill.pairs[exact] == pytest.approx(np.array(served.pairs)[exact], abs=1e-3)
    longest = longest_context_of(log, prefill)
    assert np.isclose(longest, served.longest, atol=1e-3).mean() > 0.9
