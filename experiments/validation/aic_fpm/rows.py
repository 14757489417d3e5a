"""The rows of one run: its schedule with measured step times, then its times with fitted prices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibration.steps_terms import StepTable
from costmodels.hardware import GPU
from experiments.validation.report import Row, Samples, compared
from simulator import Result

from .prices import Priced, Split, priced, splits_of, steps_of
from .replay import (
    Arrivals,
    MeasuredSteps,
    arrivals_of,
    differing_steps,
    e2e_s,
    measured_ns,
    replay,
    trace_of,
)
from .runs import Run

NOTHING = "nothing: measured step times are fed in"
PEER_STEPS = {"sweep only": 0.106, "sweep + first 30% of the real steps": 0.034}
"""Mean error of NVIDIA's AIConfigurator on its own decode steps of Qwen3-32B, before and after a
constant was tuned.

Source: README and HANDOFF of the branch that holds these runs.
"""
PEER_MODEL = "qwen3-32b"


class Compared(NamedTuple):
    """What one run gave."""

    rows: list[Row]
    samples: list[Samples]
    notes: list[str]


class Measured(NamedTuple):
    """The run simulated with its measured step times."""

    arrivals: Arrivals
    result: Result


def compare_run(run: Run, gpu: GPU) -> Compared:
    """Everything about one run; its figures show the first split."""
    found, measured = schedule(run)
    steps = steps_of(run)
    for number, split in enumerate(splits_of(run, steps)):
        rows, samples, notes = prices_by(run, gpu, split, steps, measured)
        found.rows.extend(rows)
        found.samples.extend([] if number else samples)
        found.notes.extend(notes)
    return found


def schedule(run: Run) -> tuple[Compared, Measured]:
    """The step sequence and E2E with measured step times: the error of the schedule alone."""
    arrivals = arrivals_of(run)
    result = replay(run, trace_of(run, arrivals), MeasuredSteps(measured_ns(run)), leap=False)
    return _schedule(run, arrivals, result), Measured(arrivals, result)


def prices_by(run: Run, gpu: GPU, split: Split, steps: StepTable, measured: Measured) -> Compared:
    """Errors with prices fitted to one part of the run: of steps, then of the run end to end."""
    prices = priced(run, gpu, steps, split)
    result = replay(run, trace_of(run, measured.arrivals), prices.cost_model)
    rows, pairs = _end_to_end(run, split, result, measured.result)
    return Compared([*_steps(run, split, prices), *rows], pairs, _said(run, split, prices))


def _schedule(run: Run, arrivals: Arrivals, result: Result) -> Compared:
    notes = [f"{run.name}: {note}" for note in run.notes]
    if not arrivals.is_found:
        notes.append(
            f"{run.name}: no order of the first {run.clients} requests fits the log; they are "
            "taken in the order of their numbers"
        )
    rows = _sequence(run, result, "step sequence")
    if differing_steps(run, result) and not run.notes:
        everyone = arrivals_of(run, everyone=True)
        if everyone.is_found:
            prices = MeasuredSteps(measured_ns(run))
            told = replay(run, trace_of(run, everyone), prices, closed=False, leap=False)
            rows += _sequence(run, told, "step sequence (all arrivals from the log)")
    pairs = _pairs(run, result)
    rows += compared(pairs, ("mean", "p50", "p99", "mape"), fitted_on=NOTHING, note=_later(run))
    worst = int(np.argmax(np.abs(pairs.predicted - pairs.measured)))
    real, ours = float(pairs.measured[worst]), float(pairs.predicted[worst])
    rows.append(
        Row(
            *(run.name, "e2el_ms", "largest difference", real, ours, (ours - real) / real),
            *(len(pairs.measured), NOTHING),
            note=f"{ours - real:+.1f} ms; {_later(run)}",
        )
    )
    return Compared(rows, [], notes)


def _sequence(run: Run, result: Result, quantity: str) -> list[Row]:
    """Numbers of steps, and the share of steps that differ in anything the log holds."""
    real, ours = len(run.real), len(result.steps)
    different = differing_steps(run, result)
    note = f"{different} of {real} steps differ in prompt tokens, prompts, decodes or context"
    return [
        Row(run.name, quantity, "steps", real, ours, (ours - real) / real, real, NOTHING),
        Row(
            *(run.name, quantity, "differing", None, None, different / real, real, NOTHING),
            note=note,
        ),
    ]


def _steps(run: Run, split: Split, prices: Priced) -> list[Row]:
    """Errors of single steps under the measured schedule: the error of the prices alone."""
    together = "a step with prompts and the one before it, together: its launch is booked there"
    peer = PEER_STEPS.get(split.fitted_on) if run.model == PEER_MODEL else None
    fitted_on = split.fitted_on
    rows = []
    for quantity, errors, note, other in (
        ("step_ms (decode)", prices.decode, "", peer),
        ("step_ms (mixed)", prices.mixed, together if run.in_process else "", None),
    ):
        if len(errors):
            mape = float(errors.mean())
            rows.append(
                Row(
                    *(run.name, quantity, "mape", None, None, mape, len(errors), fitted_on),
                    peer=other,
                    note=note,
                )
            )
    if len(prices.inside):
        inside = (float(np.median(prices.inside)), len(prices.inside), fitted_on)
        note = "signed; of steps with no quantity beyond the range that the fit saw"
        name = (run.name, "step_ms (decode)", "median inside the fitted range", None, None)
        rows.append(Row(*name, *inside, note=note))
    outside = f"{prices.outside:.0%} of the tested time is beyond what the fit saw"
    measured_s = float(run.log.measured_ms[split.test].sum()) / 1e3
    predicted_s = float(prices.predicted_ms[split.test].sum()) / 1e3
    summed = (measured_s, predicted_s, prices.sum_error, int(split.test.sum()), fitted_on)
    return [*rows, Row(run.name, "step_s (sum)", "sum", *summed, note=outside)]


def _end_to_end(
    run: Run, split: Split, result: Result, measured: Result
) -> tuple[list[Row], list[Samples]]:
    """E2E and makespan of the whole run simulated with the fitted prices.

    Samples are only of requests that ended after the last fitted step, where there is one.
    """
    pairs = tested = _pairs(run, result)
    rows = compared(pairs, fitted_on=split.fitted_on, note=_later(run))
    if split.first_test:
        begins_ns = int(measured_ns(run)[: split.first_test].sum())
        chosen = _by_number(run, measured)[run.clients :] > begins_ns
        tested = Samples(
            *(run.name, "e2el_ms (ended in the test part)"),
            *(pairs.measured[chosen[_answered(run)]], pairs.predicted[chosen[_answered(run)]]),
        )
        rows += compared(tested, ("mape",), fitted_on=split.fitted_on, note=_later(run))
    real_s, ours_s = float(measured_ns(run).sum()) / 1e9, result.end_ns / 1e9
    made = (real_s, ours_s, (ours_s - real_s) / real_s, 1, split.fitted_on)
    rows.append(Row(run.name, "makespan_s", "whole run", *made))
    return rows, [tested]


def _pairs(run: Run, result: Result) -> Samples:
    """E2E of the requests that a client sent after an answer.

    The first of every client waited for the client's own start, which is no part of the engine.
    """
    kept = _answered(run)
    predicted_ms = e2e_s(run, result)[run.clients :][kept] * 1e3
    return Samples(run.name, "e2el_ms", run.e2e_s[run.clients :][kept] * 1e3, predicted_ms)


def _answered(run: Run) -> NDArray[np.bool_]:
    """Of the requests after each client's first: those that have an E2E."""
    result: NDArray[np.bool_] = ~np.isnan(run.e2e_s[run.clients :])
    return result


def _by_number(run: Run, result: Result) -> NDArray[np.int64]:
    """When each request finished, ns, by request number."""
    rows = result.trace.source_row
    assert rows is not None
    finish_ns = np.empty(len(run.prompt_tokens), dtype=np.int64)
    finish_ns[rows] = result.requests.finish_ns
    return finish_ns


def _later(run: Run) -> str:
    return f"requests {run.clients + 1} and later; before, clients were starting"


def _said(run: Run, split: Split, prices: Priced) -> list[str]:
    """What a reader must know of a fit."""
    shown = {k: v for k, v in prices.model.parameters.items() if k != "decode_batch_sizes"}
    terms = ", ".join(f"{name} {value}" for name, value in shown.items())
    fit = f"{run.name}, {split.fitted_on}"
    said = [f"{fit}: {terms}; {prices.model.dropped} one-off steps dropped"]
    said += [f"{fit}: {unknown}" for unknown in prices.model.unidentified]
    return said
