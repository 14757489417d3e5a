"""Step prices fitted to part of a run, and how far they are off on the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.steps_fit import Groups, grouped
from calibration.steps_model import StepsModel, fit_steps_model, step_table
from calibration.steps_physics import AttentionSizes, physics_of
from calibration.steps_terms import StepTable
from costmodels import GPUS, StepsCostModel, find_model
from costmodels.hardware import GPU
from costmodels.model_config import bundled_models

from .runs import REAL, SWEEP, Run

ONE_OFF_MS = 500.0
"""Longer steps are first uses and compilation: no step of these runs computes so long."""
FIRST_SHARE = 0.3

HYBRIDS = {
    "qwen3.6-35b-a3b": AttentionSizes(
        layers=10,
        kv_heads=2,
        head_dim=256,
        has_experts=True,
        tokens_per_pair=None,
        experts=256,
        experts_per_token=8,
        expert_weights=40 * 3 * 2048 * 512,
    )
}
"""Models whose config.json is not bundled: of 40 layers every fourth has full attention.

These are the sizes of the model's family: 3 x 2,048 x 512 weights an expert. The layer timings of
the same collection also count 10 layers of full attention, and the blocks on which this model's
prompts end follow from the heads.
"""
LAYERWISE = "layerwise_perf_*.csv.gz"
PUBLISHED_GPU = "b300-sxm"

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """fitted_on: in words; fit, test: rows of the log; first_test: where the test part of the
    `real` segment begins, None if it has no single beginning."""

    fitted_on: str
    fit: Bools
    test: Bools
    first_test: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A fit, its cost model, and errors of the steps it did not see.

    decode, mixed: |predicted - measured| / measured of each; mixed: of steps with prompts, or of
    their groups. sum_error: of all test steps' time together, signed. outside: share of the test
    steps' time beyond what the fit saw; inside: signed errors of lone decode steps that are not.
    """

    model: StepsModel
    cost_model: StepsCostModel
    decode: Floats
    mixed: Floats
    predicted_ms: Floats
    sum_error: float
    outside: float
    inside: Floats


def gpu_of(folder: Path) -> tuple[GPU, str]:
    """The GPU, and how it is known: from the folder's layer timings or its descriptions (*.md).

    The recordings themselves do not name it; all that were published are of one.
    """
    import pandas as pd

    for path in sorted(folder.glob(LAYERWISE)):
        system = str(pd.read_csv(path, nrows=1, usecols=["system"]).system.iloc[0])
        for gpu in GPUS.values():
            if system.startswith(gpu.title):
                return gpu, f"{path.name} names {system}"
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8", errors="replace")
        named = [gpu for gpu in GPUS.values() if gpu.title in text]
        if len(named) == 1:
            return named[0], f"{path.name} names {named[0].title}"
    gpu = GPUS[PUBLISHED_GPU]
    return gpu, f"no file names it: taken to be {gpu.title}, as of the published runs"


def sizes_of(model: str) -> AttentionSizes | None:
    """Attention of a model by its name in lower case; None if it is not known."""
    if model in bundled_models():
        return AttentionSizes.of(find_model(model))
    return HYBRIDS.get(model)


def splits_of(run: Run, steps: StepTable) -> tuple[Split, ...]:
    """What is fitted and what is tested, from the honest to the easy."""
    sweep, real = run.log.segment == SWEEP, run.log.segment == REAL
    rows = run.real
    first = np.zeros(len(real), dtype=np.bool_)
    first[rows[: int(FIRST_SHARE * len(rows))]] = True
    even = real & (steps.group % 2 == 0)
    return (
        Split(
            f"sweep + first {FIRST_SHARE:.0%} of the real steps",
            *(sweep | first, real & ~first, int(FIRST_SHARE * len(rows))),
        ),
        Split("sweep only", sweep, real, 0),
        Split("sweep + every other real step (interpolation)", sweep | even, real & ~even, None),
    )


def steps_of(run: Run) -> StepTable:
    """The run's steps; grouped where the launch of one is booked on another."""
    return step_table(run.log, launch_on_step_before=run.in_process)


def priced(run: Run, gpu: GPU, steps: StepTable, split: Split) -> Priced:
    """Fit one part of a run and price the rest.

    Raises:
        ConfigError: too few steps to fit.
    """
    physics = physics_of(gpu, sizes_of(run.model), tensor_parallel=run.tensor_parallel)
    model = fit_steps_model(steps, split.fit, physics, drop_over_ms=ONE_OFF_MS)
    predicted = model.predict_ms(steps)
    groups = grouped(steps)
    # A decode step on which the launch of the next was booked is part of that step's group.
    lone = split.test & ~steps.has_prompt & ~groups.any(steps.has_prompt)[groups.of]
    measured, beyond = steps.measured_ms, _beyond(steps, model.seen)
    parameters: Any = model.parameters  # Any: StepsParameters checks every one
    return Priced(
        model=model,
        cost_model=StepsCostModel(**parameters),
        decode=np.abs(predicted[lone] / measured[lone] - 1),
        mixed=_mixed(groups, steps, predicted, split.test),
        predicted_ms=predicted,
        sum_error=float(predicted[split.test].sum() / measured[split.test].sum() - 1),
        outside=float(measured[split.test & beyond].sum() / measured[split.test].sum()),
        inside=predicted[lone & ~beyond] / measured[lone & ~beyond] - 1,
    )


def _mixed(groups: Groups, steps: StepTable, predicted_ms: Floats, test: Bools) -> Floats:
    """Errors of the groups with prompts that lie in the test part as a whole."""
    whole = ~groups.any(~test) & groups.any(steps.has_prompt)
    ratio = groups.sums(predicted_ms)[whole] / groups.sums(steps.measured_ms)[whole]
    errors: Floats = np.abs(ratio - 1)
    return errors


def _beyond(steps: StepTable, seen: Bools) -> Bools:
    """Steps with any quantity outside the range of those that the fit saw."""
    beyond = np.zeros(len(seen), dtype=np.bool_)
    for column in steps[:5]:
        beyond |= (column < column[seen].min()) | (column > column[seen].max())
    return beyond
