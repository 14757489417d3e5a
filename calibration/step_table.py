"""A fit to a step log, as a cost table: coefficients, provenance, errors, fitted range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodels.table import CostTable, KVCapacity, Value
from simulator.errors import ConfigError

from .fit import Errors, FitOptions, Quantities, StepFit, errors_of, fit_steps, quantities_of
from .step_log import Bools, Floats, StepLog
from .steps_model import fit_log
from .steps_physics import Physics


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where the log was measured: what a table's provenance needs and no log contains."""

    name: str
    description: str
    device: str
    dtype: str
    model: str
    engine: str
    software: dict[str, str]
    date: str
    source: str
    licence: str
    tensor_parallel: int = 1
    kv: KVCapacity | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    note: str | None = None

    def provenance(self, command: str) -> dict[str, Value]:
        """What a table says of it, and the command that made the table."""
        return {
            "device": self.device,
            "tensor_parallel": self.tensor_parallel,
            "dtype": self.dtype,
            "model": self.model,
            "engine": self.engine,
            "software": dict(self.software),
            "date": self.date,
            "command": command,
            "source": self.source,
            "licence": self.licence,
        }


@dataclass(frozen=True, slots=True)
class StepsKind:
    """How to fit kind `steps`: what is known beforehand, and whether launches are booked on the
    step before (`steps_model.step_table`)."""

    physics: Physics
    launch_on_step_before: bool = False


def table_from_steps(
    log: StepLog, options: FitOptions, setting: Setting, *, command: str, kind: StepsKind | None
) -> CostTable:
    """Fit one segment of a log and put around the coefficients all that a table needs.

    kind: None fits the linear model.

    Raises ConfigError if a segment is not in the log, or has too few steps to fit.
    """
    unknown: tuple[str, ...] = ()
    if kind is None:
        fit = fit_steps(log, options)
    else:
        booked = kind.launch_on_step_before
        fit, model = fit_log(log, options, kind.physics, launch_on_step_before=booked)
        unknown = tuple(map(str, model.unidentified))
    quantities = quantities_of(log)
    of = f"the {options.segment} steps" if options.segment else "all steps"
    split = (
        f"random {options.held_out_share:.0%} of {of}, seed {options.seed}, never seen by the fit"
    )
    return CostTable(
        kind="linear" if kind is None else "steps",
        name=setting.name,
        description=setting.description,
        parameters=dict(fit.parameters),
        provenance=_provenance(fit, options, setting, command, unknown),
        held_out={"split": split, **_rounded(fit.held_out)},
        extrapolation=_extrapolation(log, options, fit, quantities),
        fitted_range=_fitted_range(fit, quantities),
        kv=setting.kv,
        max_model_len=setting.max_model_len,
        max_num_batched_tokens=setting.max_num_batched_tokens,
    )


def _provenance(
    fit: StepFit, options: FitOptions, setting: Setting, command: str, unknown: tuple[str, ...]
) -> dict[str, Value]:
    over = "" if options.drop_over_ms is None else f"over {options.drop_over_ms:g} ms, or "
    provenance: dict[str, Value] = {
        "origin": "measured: a fit to a log of real engine steps",
        **setting.provenance(command),
        "samples": fit.samples,
        "dropped": f"{fit.dropped} steps {over}{options.drop_factor:g} times off a first fit",
    }
    notes = [] if setting.note is None else [setting.note]
    notes += [f"the log cannot tell {term}" for term in unknown]
    if notes:
        provenance["note"] = "; ".join(notes)
    return provenance


def _fitted_range(fit: StepFit, quantities: Quantities) -> dict[str, Value]:
    return {
        name: [round(column[fit.fitted].min()), round(column[fit.fitted].max())]
        for name, column in zip(Quantities._fields, quantities, strict=True)
    }


def _extrapolation(
    log: StepLog, options: FitOptions, fit: StepFit, quantities: Quantities
) -> dict[str, Value] | None:
    """Errors on another segment, and how far outside the fitted range it is."""
    if options.test_segment is None:
        return None
    test = log.segment == options.test_segment
    if not test.any():
        raise ConfigError(f"segment {options.test_segment!r} is not in the log")
    outside = np.zeros(len(log), dtype=np.bool_)
    for column in quantities:
        fitted = column[fit.fitted]
        outside |= (column < fitted.min()) | (column > fitted.max())
    predicted, measured = fit.predicted_ms, log.measured_ms
    share = measured[test & outside].sum() / measured[test].sum()
    decode = log.prefill_tokens == 0
    runs = _with_decode_before(log, test)
    joint_predicted, joint_measured, prompts = (
        np.bincount(runs[test], column[test]).astype(np.float64)
        for column in (predicted, measured, (~decode).astype(np.float64))
    )
    with_prompts = prompts > 0
    result: dict[str, Value] = {
        "split": f"all {options.test_segment} steps; the fit saw none of them",
        "time_outside_fitted_range": _tidy(share),
        "sum_of_all_steps": _tidy(predicted[test].sum() / measured[test].sum() - 1),
    }
    if (test & decode).any():
        result["decode_steps"] = _rounded(errors_of(predicted, measured, test & decode))
    if with_prompts.any():
        result["steps_with_prompts"] = _rounded(errors_of(predicted, measured, test & ~decode))
        # Where engine and scheduler share a process, the launch of a step with prompts is booked
        # on the step before it: only the two together have a meaning.
        together = errors_of(joint_predicted, joint_measured, with_prompts)
        result["steps_with_prompts_and_the_decode_step_before"] = _rounded(together)
    return result


def _with_decode_before(log: StepLog, test: Bools) -> NDArray[np.int64]:
    """A number per step: steps with prompts share that of the decode step before them."""
    begins = (log.prefill_tokens == 0) | ~log.follows | ~test
    return np.cumsum(begins, dtype=np.int64)


def _rounded(errors: Errors) -> dict[str, Value]:
    return {"n": errors.n, **{k: _tidy(v) for k, v in errors._asdict().items() if k != "n"}}


def _tidy(value: Floats | float) -> float:
    return float(f"{float(value):.6g}")
