"""A sweep: every point of a grid simulated, in one process or many, and one table of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.config import RunConfig
from experiments.results import SWEEP_FILES, results_folder, write_yaml
from simulator.errors import ConfigError, RunwayError

from .moment import moment_frame
from .point import invalid, refusal, run_point, shared_trace, workload_settings
from .rows import sweep_frame
from .spec import Point, SweepSpec
from .store import PointStore, Record, identity

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, float], None]
"""Called with (points done, points, simulated seconds of the points that ran just now)."""


@dataclass(frozen=True, slots=True, eq=False)
class SweepOutcome:
    """A finished sweep. rows: `sweep.parquet`. resumed: points kept from an earlier start."""

    rows: pd.DataFrame
    ok: int
    invalid: int
    failed: int
    resumed: int

    def _repr_html_(self) -> str:
        """For notebooks: the best points by goodput."""
        from .notebook import outcome_html

        return outcome_html(self.rows)


@dataclass(frozen=True, slots=True)
class _Job:
    """A point that has to run, and where its record goes."""

    point: Point
    config: RunConfig
    path: Path


def run_sweep(
    spec: SweepSpec, out: Path, *, jobs: int = 1, progress: Progress | None = None
) -> SweepOutcome:
    """Run every point that `out` does not hold yet, then write the sweep's files.

    jobs: processes; -1 is one per core. The files are the same whatever their number.
    Points that cannot be resolved are rows with status `invalid`, runs that go wrong rows with
    status `failed`, each with its reason; `points/` in `out` keeps what is done, so that the same
    call goes on after a crash. A failed point is tried again.

    Raises:
        ConfigError: `out` cannot be used, or holds another sweep or a run; jobs is 0.
            No point can be run: then nothing is written.
        RunwayError: the workload that all points share cannot be read.
    """
    if jobs < 1 and jobs != -1:
        raise ConfigError(f"jobs is {jobs}, must be at least 1, or -1 for one per core")
    store = PointStore(out)
    records, waiting = _plan(spec, store)
    if waiting and not any(name in spec.grid for name in ("trace", "format", "columns")):
        shared_trace(waiting[0].config)
    _require_one(records, waiting)
    store.open(spec)
    resumed = _take_up(store, records, waiting)
    simulated_s = 0.0
    _tell(progress, records, spec, simulated_s)
    for index, record in _run(waiting, jobs):
        records[index] = record
        simulated_s += record.get("simulated_s", 0.0)
        _tell(progress, records, spec, simulated_s)
    ordered = [records[index] for index in range(len(spec))]
    rows = sweep_frame(spec, ordered)
    _write(spec, out, ordered, rows)
    counts = Counter(record["status"] for record in ordered)
    return SweepOutcome(rows, counts["ok"], counts["invalid"], counts["failed"], resumed)


def _plan(spec: SweepSpec, store: PointStore) -> tuple[dict[int, Record], list[_Job]]:
    """Records of points that cannot be resolved, and the jobs, equal workloads side by side."""
    records: dict[int, Record] = {}
    jobs: list[_Job] = []
    for point in spec.points():
        try:
            config = spec.config(point)
        except ConfigError as error:
            records[point.index] = invalid(str(error))
        else:
            jobs.append(_Job(point, config, store.path(point, config)))
    first: dict[str, int] = {}
    for job in jobs:
        first.setdefault(workload_settings(job.config), job.point.index)
    jobs.sort(key=lambda job: (first[workload_settings(job.config)], job.point.index))
    return records, jobs


def _require_one(records: dict[int, Record], waiting: Sequence[_Job]) -> None:
    """Refuse a sweep none of whose points can be run, as a setting that all share makes it."""
    reasons = [str(record["reason"]) for record in records.values()]
    for job in waiting:
        reason = refusal(job.config)
        if reason is None:
            return
        reasons.append(reason)
    different = list(dict.fromkeys(reasons))
    several = f"none of the {len(reasons)} points can be run\n" if len(different) > 1 else ""
    raise ConfigError(several + "\n".join(different))


def _take_up(store: PointStore, records: dict[int, Record], waiting: list[_Job]) -> int:
    """Move jobs with a finished record from `waiting` to `records`; how many."""
    found = {job.point.index: store.finished(job.path) for job in waiting}
    kept = {index: record for index, record in found.items() if record is not None}
    records.update(kept)
    waiting[:] = [job for job in waiting if job.point.index not in kept]
    return len(kept)


def _run(waiting: Sequence[_Job], jobs: int) -> Iterator[tuple[int, Record]]:
    """Records in the order they finish.

    Raises:
        RunwayError: a worker process was killed.
    """
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if jobs == 1 or len(waiting) <= 1:
        yield from (_run_job(job) for job in waiting)
        return
    pool = Parallel(n_jobs=jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    try:
        yield from pool(delayed(_run_job)(job) for job in waiting)
    except TerminatedWorkerError:
        raise RunwayError(
            f"a process of the sweep was killed, perhaps for want of memory (jobs {jobs}): run the "
            "same command again, with fewer jobs; the points that are done are kept"
        ) from None


def _run_job(job: _Job) -> tuple[int, Record]:
    return job.point.index, run_point(job.config, job.path)


def _tell(
    progress: Progress | None, records: dict[int, Record], spec: SweepSpec, simulated_s: float
) -> None:
    if progress is not None:
        progress(len(records), len(spec), simulated_s)


def _write(spec: SweepSpec, out: Path, records: Sequence[Record], rows: pd.DataFrame) -> None:
    moment = moment_frame(spec, rows)
    with results_folder(out, owned=SWEEP_FILES) as draft:
        rows.to_parquet(draft / "sweep.parquet", index=False)
        rows.to_csv(draft / "sweep.csv", index=False, lineterminator="\n")
        if moment is not None:
            moment.to_parquet(draft / "timelines.parquet", index=False)
        write_yaml(
            draft / "sweep.yaml", _description(spec, records), "runway sweep sweep.yaml --out DIR"
        )


def _description(spec: SweepSpec, records: Sequence[Record]) -> Record:
    """The spec as it can be run again, and what figures and readers need to know of the runs."""
    ran = [record for record in records if record["status"] == "ok"]
    settings = [dict.fromkeys(record["setting"]) for record in ran]
    counts = Counter(record["status"] for record in records)
    asked = identity(spec)
    return {
        "base": dict(spec.base),
        "grid": {name: list(values) for name, values in spec.grid.items()},
        "points": {status: counts[status] for status in ("ok", "invalid", "failed")},
        "slo": ran[0]["slo"] if ran else None,
        "setting": ", ".join(
            part for part in (settings or [{}])[0] if all(part in other for other in settings)
        ),
        "provenance": {name: asked[name] for name in ("runway_version", "files")},
    }
