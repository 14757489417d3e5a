"""Steps seen through clients: known prices are found again, with their launch booked elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibration.episodes import fit_compute, steps_parameters
from calibration.seen_steps import Physics, SeenSteps, fit_decode
from costmodels import StepsCostModel
from simulator.errors import ConfigError
from simulator.plan import StepShape
from simulator.units import NS_PER_MS

PHYSICS = Physics(context_ms_per_token=1e-4, attention_tokens_per_pair=1 / 20_000)
TRUTH = StepsCostModel(
    step_ms=10,
    compute_ms_per_token=0.04,
    knee_tokens=200,
    attention_tokens_per_pair=1 / 20_000,
    decode_ms_per_sequence=0.02,
    decode_ms_per_context_token=1e-4,
    compute_tile_tokens=128,
    boost_saving_ms=4,
    boost_recovery_ms=20,
)


def seen(steps: int = 30_000, seed: int = 0) -> SeenSteps:
    """A decode batch of 8 or 16; now and then prompts, one or two, alone or in a row.

    Two decode steps away from prompts a step is seen at its price. The one before a step with
    prompts is handed out 1 ms late.
    """
    rng = np.random.default_rng(seed)
    prompts = np.zeros(steps)
    for at in np.cumsum(rng.integers(40, 60, steps // 50)):
        if at + 8 < steps:
            prompts[at] = rng.integers(1, 3)
            if rng.random() < 0.5:
                prompts[at + rng.integers(1, 6)] = 1
    tokens = prompts * rng.integers(930, 1050, steps)
    seqs = np.repeat(rng.choice([8, 16], steps // 50 + 1), 50)[:steps].astype(float)
    context = seqs * 1000
    interval, since_ns = np.zeros(steps), 10**15
    for k in range(steps):
        each = int(tokens[k] / max(prompts[k], 1))
        chunks = ((each, 0),) * int(prompts[k])
        shape = StepShape(chunks, int(seqs[k]), int(context[k]))
        time_ns = TRUTH.step_ns(shape) - TRUTH.pause_saving_ns(shape, since_ns)
        since_ns = 0 if chunks else since_ns + time_ns
        interval[k] = time_ns / NS_PER_MS
    early = np.flatnonzero((prompts[1:] > 0) & (prompts[:-1] == 0))
    interval[early] += 1.0
    interval[early + 1] -= 1.0
    return SeenSteps(interval, np.ones(steps, bool), prompts, tokens, seqs, context)


def test_prices_are_found_again_though_launches_are_booked_on_the_step_before() -> None:
    log = seen()

    line = fit_decode([log], PHYSICS)
    compute = fit_compute([(log, line)], PHYSICS)

    assert line.sequence_ms == pytest.approx(0.02)
    assert line.step_ms == pytest.approx(10)
    assert compute.tile_tokens == 128
    assert compute.boost_recovery_ms == 20
    assert compute.boost_saving_ms == pytest.approx(4, rel=0.05)
    assert compute.token_ms == pytest.approx(0.04, rel=0.01)
    assert compute.offset_ms == pytest.approx(10 - 0.04 * 200, rel=0.15)
    assert not compute.offset_is_physics
    parameters = steps_parameters(line, compute, PHYSICS)
    assert parameters["knee_tokens"] == pytest.approx(200, rel=0.05)
    StepsCostModel(**parameters)


def test_without_two_prompts_in_a_step_the_knee_is_where_compute_overtakes_the_read() -> None:
    log = seen()
    log = replace(log, prompts=np.minimum(log.prompts, 1), is_whole=log.prompts < 2)

    line = fit_decode([log], PHYSICS)
    compute = fit_compute([(log, line)], PHYSICS)

    assert compute.offset_is_physics
    assert compute.offset_ms == 0
    knee = steps_parameters(line, compute, PHYSICS)["knee_tokens"]
    assert knee == pytest.approx(line.step_ms / compute.token_ms)


def test_a_batch_is_priced_as_the_captured_size_that_holds_it() -> None:
    """5 to 8 sequences run the graph for 8, 9 to 16 that for 16: 11 and 13 ms, so 0.25 a sequence.

    4 run that for 4: 10.9 ms, which says nothing of larger batches.
    """
    seqs = np.repeat([4.0, 5.0, 7.0, 9.0, 16.0], 20)
    time = np.select([seqs <= 4, seqs <= 8], [10.9, 11.0], 13.0)
    none = np.zeros(100)
    log = SeenSteps(time + 1e-4 * 1000 * seqs, np.ones(100, bool), none, none, seqs, 1000 * seqs)

    assert fit_decode([log], PHYSICS) == pytest.approx((9.0, 0.25, 3))


def test_one_batch_size_prices_no_sequence() -> None:
    log = replace(seen(2_000), decode_seqs=np.full(2_000, 8.0))
    with pytest.raises(ConfigError, match="1 captured batch sizes"):
        fit_decode([log], PHYSICS)


def test_no_prompts_no_compute() -> None:
    log = seen(2_000)
    line = fit_decode([log], PHYSICS)
    with pytest.raises(ConfigError, match="no step with prompts"):
        fit_compute([(replace(log, prompts=np.zeros(2_000)), line)], PHYSICS)
