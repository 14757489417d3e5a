"""One point of a sweep, run in whatever process: nothing is shared but files."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

import numpy as np

from experiments.blame import blame
from experiments.caption import caption_parts
from experiments.config import RunConfig
from experiments.option import option_of
from experiments.run import prepare, run_config
from experiments.workload import Workload, build_workload
from simulator.errors import RunwayError
from simulator.trace import Trace
from simulator.units import ns_to_seconds

from .rows import metric_row
from .sharing import Handle
from .store import Record

WORKLOAD_SETTINGS = frozenset(
    name
    for name, field in RunConfig.model_fields.items()
    if option_of(field).section in ("Workload", "Transforms")
)
"""Settings that decide the trace."""


def invalid(reason: str) -> Record:
    """The record of a point that cannot be run."""
    return {"status": "invalid", "reason": _one_line(reason), "metrics": None}


def failed(reason: str) -> Record:
    """The record of a point whose run went wrong."""
    return {"status": "failed", "reason": _one_line(reason), "metrics": None}


def _one_line(text: str) -> str:
    """A reason is a cell of a table.

    >>> _one_line("no room\\n  for it\\n")
    'no room; for it'
    """
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def refusal(config: RunConfig, file: Handle | None = None) -> str | None:
    """Why a point cannot be run; None if it can."""
    try:
        prepare(config, workload=shared_workload(config, file))
    except RunwayError as error:
        return str(error)
    return None


def shared_workload(config: RunConfig, file: Handle | None = None) -> Workload:
    """The workload of a run, built once per process for runs of the same one in a row.

    file: its trace file, if another process or this one has read it.

    Raises:
        RunwayError: as `build_workload`.
    """
    stamp = None if file else _stamp(config.trace)
    return _build(workload_settings(config), stamp, file)


def workload_settings(config: RunConfig) -> str:
    """The settings that decide the trace, as text: equal texts, equal traces."""
    held = config.model_dump(mode="json", include=set(WORKLOAD_SETTINGS), exclude_none=True)
    return json.dumps(held, sort_keys=True)


def run_point(config: RunConfig, file: Handle | None = None) -> Record:
    """Simulate a point; a run that goes wrong is a record too."""
    reason = refusal(config, file)
    if reason is not None:
        return invalid(reason)
    try:
        workload = shared_workload(config, file)
        outcome = run_config(config, workload=workload)
    except RunwayError as error:
        return failed(str(error))
    except Exception as error:  # one point's accident must not cost the others their time
        return failed(blame(error))
    notes = outcome.summary["provenance"]["notes"]
    return {
        "status": "ok",
        "reason": None,
        "metrics": metric_row(outcome.summary),
        "slo": outcome.config.slo,
        "setting": caption_parts(outcome.summary),
        "simulated_s": ns_to_seconds(outcome.result.end_ns),
        "requests_digest": requests_digest(workload.trace),
        **({"notes": notes} if notes else {}),
    }


def requests_digest(trace: Trace) -> str:
    """Equal for seeds that make the same arrivals and lengths."""
    digest = hashlib.sha256()
    for column in (trace.arrival_ns, trace.prompt_tokens, trace.output_tokens):
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()[:16]


@lru_cache(maxsize=2)
def _build(settings: str, stamp: tuple[int, int] | None, file: Handle | None) -> Workload:
    """stamp: of the trace file; a file that was replaced is read again."""
    return build_workload(RunConfig(**json.loads(settings)), file=file.get() if file else None)


def _stamp(trace: str | None) -> tuple[int, int] | None:
    path = Path(trace) if trace else None
    if path is None or not path.is_file():
        return None
    return path.stat().st_mtime_ns, path.stat().st_size
