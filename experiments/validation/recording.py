"""Recordings of an engine against prices and scheduler: every step, and every request.

Recordings are the JSON files of `calibration.engine_log`; for steps also the CSV of
`calibration.step_log`. The scheduler is `vllm` with the limits that the recording names, sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibration.comparison import kind_of
from calibration.engine_log import EngineLog, read_engine_log
from calibration.reconstruct import longest_context_of, prefill_of
from calibration.step_log import StepLog, read_step_log
from costmodels import LoadedCostModel
from simulator import simulate
from simulator.cost_model import CostModel
from simulator.errors import ConfigError
from simulator.plan import StepShape
from simulator.result import Result
from simulator.timings import e2el_ns, tpot_ms, ttft_ns
from simulator.trace import Trace
from simulator.units import NS_PER_MS

from .replay import differences_given_times, kv_of, scheduler_of
from .report import DatasetReport, Row, Samples, compared

Floats = NDArray[np.float64]

QUANTITIES = ("ttft_ms", "tpot_ms", "e2el_ms")
STATISTICS = ("mean", "p50", "p90", "p99", "mape")


def validate_steps(files: Sequence[Path], prices: LoadedCostModel) -> DatasetReport:
    """Price every step of recordings. Raises RunwayError for what cannot be read or priced."""
    rows: list[Row] = []
    samples: list[Samples] = []
    for path in files:
        measured_ms, shapes = _steps(path)
        priced_ms = np.array([prices.step_ns(shape) for shape in shapes]) / NS_PER_MS
        kinds = np.array([kind_of(shape) for shape in shapes])
        for kind in ("decode", "mixed", "prompt"):
            here = kinds == kind
            if here.any():
                held = Samples(path.name, f"step_ms ({kind})", measured_ms[here], priced_ms[here])
                samples.append(held)
                rows += compared(held, STATISTICS, fitted_on=_fitted_on(prices))
        total, priced = float(measured_ms.sum()) / 1e3, float(priced_ms.sum()) / 1e3
        rows.append(
            Row(
                *(path.name, "all_steps_s", "sum", total, priced, priced / total - 1),
                *(len(shapes), _fitted_on(prices)),
            )
        )
    return DatasetReport("steps", _source(files), tuple(rows), tuple(samples))


def validate_requests(files: Sequence[Path], prices: LoadedCostModel) -> DatasetReport:
    """Simulate the requests of recordings; several are runs of one trace, whose spread is told.

    Raises RunwayError for what cannot be read, or recordings of different traces.
    """
    logs = [read_engine_log(path) for path in files]
    _check_alike(logs)
    rows: list[Row] = []
    samples: list[Samples] = []
    for log in logs:
        differences = differences_given_times(log)
        result = _simulated(log, log.trace, prices)
        name, fitted_on = log.path.name, _fitted_on(prices)
        for held in _request_samples(log, result):
            samples.append(held)
            rows += compared(held, STATISTICS, fitted_on=fitted_on)
        steps, ours = len(log.steps), len(result.steps)
        rows.append(Row(name, "steps", "count", steps, ours, ours / steps - 1, 1, fitted_on))
        rows.append(
            Row(
                *(name, "step sequence given the times", "differences", None, None),
                *(float(differences), steps, "nothing"),
                note="steps whose requests, tokens, preemptions or free blocks differ",
            )
        )
    notes = tuple(_spreads(samples)) if len(logs) > 1 else ()
    if len(logs) > 1:
        rows += _rows_of_means(samples, _fitted_on(prices))
    return DatasetReport("requests", _source(files), tuple(rows), tuple(samples), notes)


def _simulated(log: EngineLog, trace: Trace, prices: CostModel) -> Result:
    return simulate(trace, scheduler_of(log), prices, kv_of(log), async_scheduling=False)


def _request_samples(log: EngineLog, result: Result) -> list[Samples]:
    rows = np.arange(len(log.trace))
    several = np.flatnonzero(log.trace.output_tokens > 1)
    pairs = {
        "ttft_ms": (log.ttft_ms, ttft_ns(result, rows) / NS_PER_MS),
        "tpot_ms": (log.tpot_ms[several], tpot_ms(result, several)),
        "e2el_ms": (log.e2el_ms, e2el_ns(result, rows) / NS_PER_MS),
    }
    return [Samples(log.path.name, name, *pair) for name, pair in pairs.items()]


def _steps(path: Path) -> tuple[Floats, list[StepShape]]:
    """Milliseconds and shapes: exact from a run's JSON, from a CSV as far as it tells."""
    if path.suffix == ".json":
        steps = read_engine_log(path).steps
        return np.array([step.duration_ns for step in steps]) / NS_PER_MS, [s.shape for s in steps]
    log = read_step_log(path)
    return log.measured_ms, _reconstructed(log)


def _reconstructed(log: StepLog) -> list[StepShape]:
    """One chunk stands for all prompts of a step: with its tokens, and a past of as many pairs."""
    prefill = prefill_of(log)
    longest = longest_context_of(log, prefill)
    shapes = []
    columns = (log.prefill_tokens, prefill.pairs, log.decode_seqs, log.decode_context, longest)
    for new, pairs, seqs, context, most in zip(*(c.tolist() for c in columns), strict=True):
        past = max(0, round(pairs / new - new / 2)) if new else 0
        chunks = ((int(new), past),) if new else ()
        shapes.append(StepShape(chunks, int(seqs), int(context), round(most)))
    return shapes


def _check_alike(logs: Sequence[EngineLog]) -> None:
    first = logs[0]
    for log in logs[1:]:
        same = log.limits == first.limits and all(
            np.array_equal(getattr(log.trace, name), getattr(first.trace, name))
            for name in ("arrival_ns", "prompt_tokens", "output_tokens")
        )
        if not same:
            raise ConfigError(
                f"{log.path} and {first.path} are not runs of one trace with the same limits: "
                "validate them one by one"
            )


def _rows_of_means(samples: Sequence[Samples], fitted_on: str) -> list[Row]:
    """The mean of every quantity over all runs; every run has the same prediction."""
    rows = []
    for name in QUANTITIES:
        held = [each for each in samples if each.quantity == name]
        mean = Samples(
            f"mean of {len(held)} runs",
            name,
            np.mean([each.measured for each in held], axis=0),
            held[0].predicted,
        )
        note = f"the runs' means spread over {_spread(held):.1%}"
        rows += compared(mean, ("mean", "mape"), fitted_on=fitted_on, note=note)
    return rows


def _spreads(samples: Sequence[Samples]) -> list[str]:
    return [
        f"{name}: largest - smallest mean of the runs is "
        f"{_spread([each for each in samples if each.quantity == name]):.1%} of their mean"
        for name in QUANTITIES
    ]


def _spread(held: Sequence[Samples]) -> float:
    means = [float(each.measured.mean()) for each in held]
    return (max(means) - min(means)) / float(np.mean(means))


def _fitted_on(prices: LoadedCostModel) -> str:
    return f"table {prices.table.name}"


def _source(files: Sequence[Path]) -> str:
    return ", ".join(path.name for path in files)
