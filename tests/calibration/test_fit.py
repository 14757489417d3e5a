"""The robust fit finds the coefficients that made a log, outliers or not."""

import numpy as np
import pytest

from calibration.fit import FitOptions, fit_steps, predict_ms, quantities_of
from simulator.errors import ConfigError

from .conftest import log_of
from .serving import random_load, serve

TRUTH = {
    "step_ms": 5.0,
    "prefill_ms_per_token": 0.03,
    "attention_ms_per_token_pair": 3e-5,
    "prefill_step_ms": 0.5,
    "decode_ms_per_sequence": 0.05,
    "decode_ms_per_context_token": 2e-4,
    "longest_context_ms_per_token": 1e-3,
    "longest_context_full_at_sequences": 10,
}
STEPS = serve(*random_load(1), budget=256, max_seqs=16).steps
EXACT_MS = predict_ms(TRUTH, quantities_of(log_of(STEPS)))
OPTIONS = FitOptions(segment="all")


def test_coefficients_of_an_exact_log_are_found():
    fit = fit_steps(log_of(STEPS, EXACT_MS), OPTIONS)
    assert fit.parameters == pytest.approx(TRUTH, rel=1e-3)
    assert fit.held_out.p90 < 1e-5
    assert fit.dropped == 0
    assert fit.samples + fit.held_out.n == len(STEPS)


def test_noise_of_two_per_cent_leaves_two_per_cent_held_out_error():
    noise = np.random.default_rng(0).uniform(0.98, 1.02, len(STEPS))
    fit = fit_steps(log_of(STEPS, EXACT_MS * noise), OPTIONS)
    assert 0.005 < fit.held_out.median < 0.015
    assert fit.held_out.p90 < 0.02


def test_one_off_steps_are_dropped_and_change_nothing():
    """One step of 2 s (over the limit), one 40 times too long, one 40 times too short."""
    ms = EXACT_MS.copy()
    ms[3], ms[50], ms[90] = 2000, 40 * ms[50], ms[90] / 40
    options = FitOptions(segment="all", drop_over_ms=1000)
    fit = fit_steps(log_of(STEPS, ms), options)
    assert fit.dropped == 3
    assert fit.parameters == pytest.approx(TRUTH, rel=1e-3)


def test_outliers_within_the_limits_hardly_move_the_fit():
    """A twentieth of all steps takes twice as long: least squares would move by 5 %."""
    ms = EXACT_MS.copy()
    ms[::20] *= 2
    fit = fit_steps(log_of(STEPS, ms), OPTIONS)
    assert fit.dropped == 0
    assert fit.parameters["step_ms"] == pytest.approx(5.0, rel=0.01)
    assert fit.held_out.median < 0.001


def test_attention_can_be_tied_to_its_flops():
    fit = fit_steps(log_of(STEPS, EXACT_MS), FitOptions("all", attention_tokens_per_pair=1e-3))
    ratio = fit.parameters["attention_ms_per_token_pair"] / fit.parameters["prefill_ms_per_token"]
    assert ratio == pytest.approx(1e-3, rel=1e-5)
    assert fit.parameters["prefill_ms_per_token"] == pytest.approx(0.03, rel=1e-3)


def test_no_coefficient_is_negative():
    """Decodes that get cheaper with their number cannot be fitted: the term is left out."""
    quantities = quantities_of(log_of(STEPS))
    ms = 50 - quantities.decode_seqs + 0.03 * quantities.prefill_tokens
    fit = fit_steps(log_of(STEPS, ms), OPTIONS)
    assert "decode_ms_per_sequence" not in fit.parameters
    assert min(fit.parameters.values()) > 0


def test_the_seed_chooses_the_held_out_steps_and_nothing_else():
    log = log_of(STEPS, EXACT_MS)
    first, again, other = (fit_steps(log, FitOptions("all", seed=seed)) for seed in (0, 0, 1))
    assert (first.fitted == again.fitted).all()
    assert first.parameters == again.parameters
    assert (first.fitted != other.fitted).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"held_out_share": 0.0}, "held_out_share is 0.0"),
        ({"held_out_share": 1.0}, "held_out_share is 1.0"),
        ({"drop_factor": 1.0}, "drop_factor is 1.0: must be above 1"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ConfigError, match=message):
        FitOptions("all", **options)


def test_a_segment_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match=r"'sweep' has 0 steps, .* \(segments of this log: all\)"):
        fit_steps(log_of(STEPS), FitOptions("sweep"))
