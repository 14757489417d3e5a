"""The same steps and runs, priced from NVIDIA's measured kernels: nothing is fitted to a step.

Prices come from the package `aiconfigurator-core`; only the delay between client and engine is that
of the runs at 2 requests a second. Prompts take a little longer than their kernels one by one: how
much is read off the steps at 2 requests a second, and runs without such a record are predicted with
that one constant, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibration.served import Served, serve
from costmodels import ExtrapolationWarning, OperatorsCostModel, load_cost_model
from costmodels.aiconfigurator import is_installed
from experiments.validation.report import Row, Samples, compared
from simulator import StepShape, Trace
from simulator.units import NS_PER_MS

from .prices import NS_PER_US, SERVING, Calibrated
from .recordings import Recording

SYSTEM = "h100_sxm"
MODEL = "qwen3-14b"
UNFITTED = "nothing: NVIDIA's kernels"
STATISTICS = ("mean", "p50", "mape")


def kernel_rows(
    recordings: Sequence[Recording], calibrated: Mapping[str, Calibrated]
) -> tuple[list[Row], list[str]]:
    """(rows, notes); only a note without the package."""
    if not is_installed():
        return [], [
            "not compared with NVIDIA's kernels: aiconfigurator-core is not installed (pip install "
            "'llm-runway[aic]')"
        ]
    kernels = load_cost_model(f"aiconfigurator:{SYSTEM}", model=MODEL)
    assert isinstance(kernels, OperatorsCostModel), kernels.table.kind
    seen = [each for each in recordings if each.steps is not None]
    unseen = [each for each in recordings if each.steps is None]
    rows = [row for each in seen for row in _step_rows(each, kernels)]
    factor = slower(seen, kernels)
    slowed = kernels.with_parameters(prefill_step_factor=factor)
    derated = f"x {factor:.3f} on prompts, from steps at 2 req/s"
    for fitted_on, model, tested in ((UNFITTED, kernels, recordings), (derated, slowed, unseen)):
        for each in tested:
            rows += _run_rows(each, _served(each, model, calibrated[each.image]), fitted_on)
    return rows, [
        f"priced by kernels ({kernels.table.description}): the client delay is that of the fitted "
        f"runs; prompts took x {factor:.3f} of what they add to the price of the recorded steps",
        f"beyond what NVIDIA measured attention goes on in a straight line: {_farthest(kernels)}",
    ]


def _farthest(kernels: OperatorsCostModel) -> str:
    """On which axes, and how far, the runs went beyond the grid."""
    axes = kernels.extrapolation_report()["farthest"]
    assert isinstance(axes, dict)
    told = (f"{axis} {at['asked']:,.0f} ({at['measured'][1]:,})" for axis, at in axes.items())
    return ", ".join(told) or "nowhere"


def slower(recordings: Sequence[Recording], kernels: OperatorsCostModel) -> float:
    """The factor on what prompts add to a step: the median over all recorded steps with prompts.

    Measured less the price of the same decodes without prompts, over priced less that.
    """
    factors = []
    for each in recordings:
        pair = _steps(each, kernels, mixed=True)
        alone = _steps(each, kernels, mixed=True, with_prompts=False).predicted
        factors.append((pair.measured - alone) / (pair.predicted - alone))
    return float(np.median(np.concatenate(factors)))


def _step_rows(recording: Recording, kernels: OperatorsCostModel) -> list[Row]:
    return [
        row
        for mixed in (False, True)
        for row in compared(_steps(recording, kernels, mixed=mixed), STATISTICS, fitted_on=UNFITTED)
    ]


def _steps(
    recording: Recording, kernels: OperatorsCostModel, *, mixed: bool, with_prompts: bool = True
) -> Samples:
    """Steps whose time is known; prompts of one step are taken to be equally long.

    with_prompts: or predict their decodes alone.
    """
    seen = recording.steps
    assert seen is not None, recording.run  # only such recordings are asked for
    chosen = seen.is_whole & ((seen.prompts > 0) == mixed) & (seen.decode_seqs + seen.prompts > 0)
    columns = (seen.prompts, seen.prompt_tokens, seen.decode_seqs, seen.decode_context)
    shapes: NDArray[np.int64] = np.stack(columns, axis=1)[chosen].astype(np.int64)
    kinds, kind_of = np.unique(shapes, axis=0, return_inverse=True)
    price = kernels.step_ns if with_prompts else kernels.without_prompts_ns
    priced = np.array([price(_shape(*kind)) for kind in kinds.tolist()]) / NS_PER_MS
    name = "step_ms (mixed)" if mixed else "step_ms (decode)"
    return recording.samples(name, seen.interval_ms[chosen], priced[kind_of.reshape(-1)])


def _shape(prompts: int, prompt_tokens: int, seqs: int, context: int) -> StepShape:
    chunks = ((prompt_tokens // prompts, 0),) * prompts if prompts else ()
    return StepShape(chunks, seqs, context)


def _served(recording: Recording, model: OperatorsCostModel, image: Calibrated) -> Served:
    trace = Trace(
        arrival_ns=recording.arrival_us * NS_PER_US,
        prompt_tokens=recording.prompt_tokens,
        output_tokens=recording.output_tokens,
    )
    with warnings.catch_warnings():  # a note says it
        warnings.simplefilter("ignore", ExtrapolationWarning)
        return serve(trace, model, SERVING, image.delay)


def _run_rows(recording: Recording, predicted: Served, fitted_on: str) -> list[Row]:
    several = recording.output_tokens > 1
    pairs = (
        recording.samples("ttft_ms", recording.ttft_ms, predicted.ttft_ms),
        recording.samples("tpot_ms", recording.tpot_ms[several], predicted.tpot_ms[several]),
        recording.samples("e2el_ms", recording.e2e_ms, predicted.e2e_ms),
    )
    return [row for pair in pairs for row in compared(pair, STATISTICS, fitted_on=fitted_on)]
