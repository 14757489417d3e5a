"""The fit of the `steps` model: coefficients that made a log are found, or their lack is said."""

from dataclasses import replace

import numpy as np
import pytest

from calibration.fit import FitOptions
from calibration.steps_choice import choose_form
from calibration.steps_fit import fit_form
from calibration.steps_model import fit_log, fit_steps_model, step_table
from calibration.steps_physics import AttentionSizes, Physics, physics_of
from calibration.steps_terms import ExpertReads, Form, StepTable
from calibration.unidentified import unidentified
from costmodels import GPUS, StepsCostModel, find_model
from simulator.errors import ConfigError
from simulator.plan import StepShape

from .conftest import log_of
from .serving import random_load, serve

SIZES = (1, 2, 4, 8, 16, 32)
FORM = Form(
    knee_tokens=100,
    attention_tokens_per_pair=1e-3,
    captured_tokens=256,
    padded_sizes=SIZES,
    wave=18.5,
    is_max=True,
)
TRUTH = {
    "step_ms": 8.0,
    "compute_ms_per_token": 0.03,
    "prefill_step_ms": 1.5,
    "continued_prompt_ms": 4.0,
    "uncaptured_step_ms": 2.5,
    "decode_ms_per_sequence": 0.02,
    "decode_ms_per_context_token": 4e-4,
    "longest_context_ms_per_token": 2e-3,
}


def steps_of(n=400, *, alike="", seed=0):
    """Random steps, a third of them with prompts.

    alike: all contexts are 1,000 tokens ("all"), or as long as the others of their "step"."""
    rng = np.random.default_rng(seed)
    seqs = rng.integers(0, 33, n).astype(float)
    new = np.where(rng.random(n) < 1 / 3, rng.integers(10, 1000, n), 0).astype(float)
    seqs = np.where(new == 0, np.maximum(seqs, 1), seqs)
    past = np.where(rng.random(n) < 0.5, rng.integers(100, 2000, n), 0) * (new > 0)
    longest = np.where(alike == "all", 1000, rng.integers(1000, 9000, n)) * (seqs > 0)
    others = seqs - 1
    context = np.where(seqs > 0, longest + others * np.where(alike != "", longest, longest / 3), 0)
    pairs = new * (past + new / 2)
    return StepTable(new, pairs, seqs, context, longest, past > 0, np.ones(n), np.arange(n)), past


def measured(form, truth, *, floor_ms=0.0, noise=0.0, **kind):
    """Steps that take what this form says, times up to 1 + noise, and their pasts."""
    steps, past = steps_of(**kind)
    model = StepsCostModel(**form.parameters({**truth}, floor_ms))
    exact = []
    for row in range(len(past)):
        new, seqs, context, longest = (int(steps[column][row]) for column in (0, 2, 3, 4))
        chunks = ((new, int(past[row])),) if new else ()
        exact.append(model.step_ns(StepShape(chunks, seqs, context, longest)) / 1e6)
    spread = np.random.default_rng(1).uniform(1 - noise, 1 + noise, len(past))
    return steps._replace(measured_ms=np.array(exact) * spread)


def found(fitted):
    return dict(zip(fitted.form.terms, fitted.coefficients.tolist(), strict=True))


@pytest.mark.parametrize("is_max", [True, False])
def test_coefficients_of_an_exact_log_are_found_and_price_as_the_cost_model(is_max):
    form = replace(FORM, is_max=is_max)
    steps = measured(form, TRUTH)
    fitted = fit_form(form, steps)
    assert found(fitted) == pytest.approx(TRUTH, rel=1e-2)
    assert fitted.predict_ms(steps) == pytest.approx(steps.measured_ms, rel=1e-3)
    assert fitted.floor_ms == 0


def test_a_floor_is_found():
    """Beyond 256 tokens no step is shorter than 40 ms."""
    form = replace(FORM, has_floor=True)
    steps = measured(form, TRUTH, floor_ms=40)
    fitted = fit_form(form, steps)
    assert fitted.floor_ms == pytest.approx(40, rel=1e-3)
    assert found(fitted) == pytest.approx(TRUTH, rel=2e-2)
    assert fitted.parameters["uncaptured_floor_ms"] == pytest.approx(40, rel=1e-3)


LEVELS = {2: 1, 4: 0, 8: 2, 16: 0, 32: 3}
"""Milliseconds from one captured batch to the next."""


def test_levels_of_captured_batches_are_found():
    """3 decodes cost what 4 cost; levels are told relative to a batch of 1."""
    form = replace(FORM, batch_sizes=SIZES, wave=None, is_max=False)
    levels = {f"decode_batch_ms[{size}]": step for size, step in LEVELS.items()}
    truth = {k: v for k, v in TRUTH.items() if k in form.terms} | levels
    fitted = fit_form(form, measured(form, truth))
    assert fitted.parameters["decode_batch_ms"] == pytest.approx([0, 1, 1, 3, 3, 6], abs=0.02)


EXPERTS = ExpertReads(evenly_used=64, per_token=4, ms=0.05)


def test_experts_read_by_a_batch():
    """2 tokens, 4 of 64 each: 8 less the 4 x 4 / 64 that both use; beyond the 4 of one, 3.75. In
    the end all are read."""
    assert EXPERTS.beyond_one(np.array([0.0, 1, 2, 1e6])).tolist() == pytest.approx(
        [0, 0, 3.75, 60]
    )


def test_prices_of_captured_batches_follow_from_the_experts_they_read():
    """Also of batches that no step of the log had."""
    form = replace(FORM, experts=EXPERTS, padded_sizes=(*SIZES, 64), wave=None, is_max=False)
    truth = {k: v for k, v in TRUTH.items() if k in form.terms} | {"expert_ms": 0.05}
    levels = fit_form(form, measured(form, truth)).parameters["decode_batch_ms"]
    read = 64 * (1 - (1 - 4 / 64) ** np.array([*SIZES, 64])) - 4
    assert levels == pytest.approx((0.05 * read).tolist(), rel=1e-4)
    free = replace(form, experts=EXPERTS._replace(ms=None))
    found_ms = found(fit_form(free, measured(free, truth)))["expert_ms"]
    assert found_ms == pytest.approx(0.05, rel=0.03)


def test_a_router_that_favours_some_experts_is_told_from_a_log_with_few_sizes():
    """Half of the experts do all the work: fewer are read than there are. With every captured
    batch seen ten times, each has its own price instead."""
    used = replace(FORM, experts=EXPERTS._replace(evenly_used=32), wave=None, is_max=False)
    truth = {k: v for k, v in TRUTH.items() if k in used.terms} | {"expert_ms": 0.05}
    steps = measured(used, truth, noise=0.01, n=800)
    physics = PHYSICS._replace(has_experts=True, experts=EXPERTS, wave=None)
    seldom = np.flatnonzero(~steps.has_prompt & (steps.decode_seqs == 2))
    few = np.ones(len(steps.group), dtype=bool)
    few[seldom[3:]] = False
    assert choose_form(steps.rows(few), physics).form.experts == used.experts
    assert choose_form(steps, physics).form.experts is None


def test_outliers_hardly_move_the_fit():
    steps = measured(FORM, TRUTH, noise=0.01)
    steps.measured_ms[::20] *= 2
    assert found(fit_form(FORM, steps))["step_ms"] == pytest.approx(8.0, rel=0.02)


def test_steps_booked_on_the_one_before_are_fitted_together():
    """Half of every step with prompts is booked on the step before it."""
    steps = measured(FORM, TRUTH)
    group = np.cumsum(steps.prefill_tokens == 0)
    steps = steps.rows(group > 0)._replace(group=group[group > 0])
    moved = steps.measured_ms.copy()
    for row in np.flatnonzero(steps.has_prompt):
        moved[row - 1] += steps.measured_ms[row] / 2
        moved[row] -= steps.measured_ms[row] / 2
    assert found(fit_form(FORM, steps._replace(measured_ms=moved))) == pytest.approx(
        TRUTH, rel=0.03
    )


def test_groups_begin_where_nothing_was_running():
    """A prompt after a decode belongs to it; the next, alone in an empty engine, does not."""
    log = log_of([([], [50]), ([(100, 0, 100)], []), ([(40, 0, 40)], [])])
    log.decode_seqs[1] = 1
    assert step_table(log, launch_on_step_before=True).group.tolist() == [0, 0, 1]
    assert step_table(log).group.tolist() == [0, 1, 2]


PHYSICS = Physics(
    attention_tokens_per_pair=1e-3,
    batch_sizes=SIZES,
    has_experts=False,
    wave=18.5,
    block_ms_per_token=2e-3,
    captured_tokens=256,
)


def test_the_form_that_made_a_log_is_chosen():
    steps = measured(FORM, TRUTH, noise=0.01, n=800)
    form = choose_form(steps, PHYSICS).form
    assert (form.knee_tokens, form.captured_tokens, form.wave, form.is_max) == (
        100,
        256,
        18.5,
        True,
    )
    assert form.batch_sizes == ()


def test_what_is_known_of_the_device_needs_no_evidence():
    """Contexts alike in every step: little shows what the longest costs, and it stays at what one
    block of threads can read."""
    steps = measured(FORM, TRUTH, alike="step", noise=0.01)
    model = fit_steps_model(steps, np.ones(len(steps.group), dtype=bool), PHYSICS)
    assert model.parameters["longest_context_ms_per_token"] == 2e-3
    assert model.parameters["decode_attention"] == "max"


def test_terms_that_rise_and_fall_together_are_not_told_apart():
    """Contexts all alike: a decode and its 1,000 tokens are one thing; two prices would be made
    up."""
    form = replace(FORM, wave=None, is_max=False)
    truth = {k: v for k, v in TRUTH.items() if k in form.terms}
    steps = measured(form, truth, alike="all")
    told = unidentified(form, steps, Physics())
    (term,) = told.terms
    assert term.term == "decode_ms_per_context_token"
    assert "rises and falls with decode_ms_per_sequence" in term.reason
    fitted = fit_form(told.form, steps)
    assert found(fitted)["decode_ms_per_context_token"] == 0
    assert found(fitted)["decode_ms_per_sequence"] == pytest.approx(0.02 + 1000 * 4e-4, rel=0.02)


def test_what_the_log_cannot_tell_is_taken_from_physics_where_it_is_known():
    form = replace(FORM, wave=None, is_max=False)
    truth = {k: v for k, v in TRUTH.items() if k in form.terms}
    steps = measured(form, truth, alike="all")
    told = unidentified(form, steps, Physics(read_ms_per_token=4e-4))
    assert "taken from the KV cache's bytes" in told.terms[0].reason
    fitted = found(fit_form(told.form, steps))
    assert fitted["decode_ms_per_context_token"] == 4e-4
    assert fitted["decode_ms_per_sequence"] == pytest.approx(0.02, abs=0.003)


def test_a_read_that_never_takes_longest_is_not_told():
    """One long context beside short ones: its block of threads is always last."""
    form = replace(FORM, captured_tokens=None)
    truth = {k: v for k, v in TRUTH.items() if k in form.terms}
    steps = measured(form, {**truth, "longest_context_ms_per_token": 1e-1})
    told = unidentified(form, steps, Physics(read_ms_per_token=3e-4))
    assert [term.term for term in told.terms] == ["decode_ms_per_context_token"]
    assert "no step of the log is long enough for it" in told.terms[0].reason
    assert found(fit_form(told.form, steps))["decode_ms_per_context_token"] == 3e-4


def test_a_term_that_no_step_has_is_said_to_be_unknown():
    """A log of decodes says nothing of prompts."""
    steps, _ = steps_of()
    steps = measured(FORM, TRUTH)
    steps = steps.rows(~steps.has_prompt)
    told = unidentified(replace(FORM, captured_tokens=None), steps, Physics())
    assert {term.term for term in told.terms} >= {"prefill_step_ms", "continued_prompt_ms"}
    assert "no step of the log has any" in str(told.terms[0])


def test_too_few_steps_are_refused():
    steps, _ = steps_of(n=30)
    with pytest.raises(ConfigError, match="30 steps to fit, a fit needs at least 40"):
        fit_steps_model(steps, np.ones(30, dtype=bool), Physics())


def test_a_share_of_the_log_is_never_seen():
    served = serve(*random_load(1), budget=256, max_seqs=16)
    tokens = [len(decodes) + sum(new for _, _, new in chunks) for chunks, decodes in served.steps]
    ms = 5 + 0.03 * np.array(tokens)
    fit, model = fit_log(log_of(served.steps, ms), FitOptions("all"), Physics())
    assert fit.held_out.n == round(0.15 * len(served.steps))
    assert fit.samples + fit.held_out.n + fit.dropped == len(served.steps)
    assert fit.held_out.p90 < 0.01
    assert model.parameters["step_ms"] == pytest.approx(5, rel=0.01)


def test_physics_of_a_model_with_experts():
    """Qwen3-30B-A3B on 2 B300: half of 3 x 2,048 x 768 weights in 48 layers, 2 bytes each."""
    sizes = AttentionSizes.of(find_model("qwen3-30b-a3b"))
    experts = physics_of(GPUS["b300-sxm"], sizes, tensor_parallel=2).experts
    read_ms = 48 * 3 * 2048 * 768 / (0.8 * 8e12) * 1e3
    assert experts == ExpertReads(128, 8, pytest.approx(read_ms))


def test_physics_of_a_known_model_and_gpu():
    """Qwen3-32B on 2 B300: 4 KV heads each, 148 / 4 = 37 sequences to a wave; a head's token is
    2 x 64 layers x 128 x 2 bytes = 32,768, at 64 bytes a clock of 1.92 GHz: 0.267 us."""
    sizes = AttentionSizes.of(find_model("qwen3-32b"))
    physics = physics_of(GPUS["b300-sxm"], sizes, tensor_parallel=2)
    assert physics.wave == 37
    assert physics.block_ms_per_token == pytest.approx(32_768 / (64 * 1.92e9) * 1e3)
    assert physics.read_ms_per_token == pytest.approx(4 * 32_768 / (0.8 * 8e12) * 1e3)
    assert physics_of(None, None, batch_sizes=(), captured_tokens=None) == Physics()
