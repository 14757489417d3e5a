"""What samples say, and which of them were disturbed."""

from __future__ import annotations

from calibration.trial import Trial, totals_ns, undisturbed


def test_quartiles_spread_and_outliers_of_hand_made_samples():
    """Quartiles 2, 3, 4; inter-quartile range 2; 11 is more than 3 x 2 beyond 4."""
    trial = Trial((4.0, 1.0, 3.0, 2.0, 11.0))
    assert trial.quartiles_ns == (2.0, 3.0, 4.0)
    assert (trial.median_ns, trial.iqr_ns, trial.spread) == (3.0, 2.0, 2 / 3)
    assert trial.outliers == 1


def test_trials_of_the_same_call_add_up():
    assert (Trial((1.0,)) + Trial((2.0, 3.0))).samples_ns == (1.0, 2.0, 3.0)


def test_a_disturbed_kernel_leaves_without_the_others_of_its_step():
    """The fastest tenths are 1 and 10, a step of 11: held up is what is over 1.2 times its own and
    lasts 0.55 longer. 1.6 is and does; 1.3 is only a short kernel's ordinary variation."""
    trials = {"a": Trial((1.0, 1.6, 1.3)), "b": Trial((10.0, 11.0, 11.0))}
    assert totals_ns(trials) == [11.0, 12.6, 12.3]
    assert undisturbed(trials) == {"a": Trial((1.0, 1.3)), "b": Trial((10.0, 11.0, 11.0))}


def test_steady_samples_are_all_kept_and_nothing_stays_nothing():
    trials = {"a": Trial((10.0, 10.5, 11.9, 12.0))}
    assert undisturbed(trials) == trials
    assert undisturbed({}) == {}
