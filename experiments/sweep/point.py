"""One point of a sweep, run in whatever process: nothing is shared but files."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from experiments.caption import caption_parts
from experiments.config import RunConfig
from experiments.option import option_of
from experiments.policies import blame
from experiments.run import prepare, run_config
from experiments.workload import build_workload
from simulator.errors import RunwayError
from simulator.trace import Trace
from simulator.units import ns_to_seconds

from .rows import metric_row
from .store import Record, write_atomically

WORKLOAD_SETTINGS = frozenset(
    name
    for name, field in RunConfig.model_fields.items()
    if option_of(field).section in ("Workload", "Transforms")
)
"""Settings that decide the trace."""


def run_point(config: RunConfig, path: Path) -> Record:
    """Simulate a point and keep its record at `path`; a run that goes wrong is a record too."""
    record = _run(config)
    write_atomically(path, record)
    return record


def invalid(reason: str) -> Record:
    """The record of a point that cannot be run."""
    return {"status": "invalid", "reason": reason, "metrics": None}


def refusal(config: RunConfig) -> str | None:
    """Why a point cannot be run; None if it can."""
    try:
        prepare(config, trace=shared_trace(config))
    except RunwayError as error:
        return str(error)
    return None


def shared_trace(config: RunConfig) -> Trace:
    """The trace of a run, built once per process for runs of the same workload in a row.

    Raises:
        RunwayError: as `build_workload`.
    """
    return _build(workload_settings(config), _stamp(config.trace))


def workload_settings(config: RunConfig) -> str:
    """The settings that decide the trace, as text: equal texts, equal traces."""
    held = config.model_dump(mode="json", include=set(WORKLOAD_SETTINGS), exclude_none=True)
    return json.dumps(held, sort_keys=True)


@lru_cache(maxsize=2)
def _build(settings: str, stamp: tuple[int, int] | None) -> Trace:
    """stamp: of the trace file; a file that was replaced is read again."""
    return build_workload(RunConfig(**json.loads(settings))).trace


def _stamp(trace: str | None) -> tuple[int, int] | None:
    path = Path(trace) if trace else None
    if path is None or not path.is_file():
        return None
    return path.stat().st_mtime_ns, path.stat().st_size


def _run(config: RunConfig) -> Record:
    reason = refusal(config)
    if reason is not None:
        return invalid(reason)
    try:
        outcome = run_config(config, trace=shared_trace(config))
    except RunwayError as error:
        return {"status": "failed", "reason": str(error), "metrics": None}
    except Exception as error:  # one point's accident must not cost the others their time
        return {"status": "failed", "reason": blame(error), "metrics": None}
    return {
        "status": "ok",
        "reason": None,
        "metrics": metric_row(outcome.summary),
        "slo": outcome.config.slo,
        "setting": caption_parts(outcome.summary),
        "simulated_s": ns_to_seconds(outcome.result.end_ns),
    }
