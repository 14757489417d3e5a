"""A sweep: every point simulated, in one process or many, and one table of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.config import RunConfig
from experiments.fork_server import warm_up
from simulator.errors import ConfigError

from .backends import Workers, check_workers, workers
from .description import write_sweep
from .jobs import Job, Key, list_jobs, run_job
from .moment import Lane, Shown, foreseen_lanes, moment_frame, try_to_show
from .notes import Notes, notes_of
from .point import failed, refusal, requests_digest, shared_workload
from .replicates import combined
from .rows import sweep_frame
from .sharing import Handle, file_key, in_memory, read_files
from .spec import SweepSpec
from .store import PointStore, Record

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int, float], None]
"""Called with (runs done, runs, simulated seconds of the runs that ran just now)."""

FOR_THE_TABLE = ("pandas", "pyarrow.parquet")
"""Libraries that only the end of a sweep needs."""


@dataclass(frozen=True, slots=True, eq=False)
class SweepOutcome:
    """A finished sweep. rows: `sweep.parquet`. resumed: runs kept from an earlier start.

    notes: settings that change less than their name says.
    """

    rows: pd.DataFrame
    ok: int
    invalid: int
    failed: int
    resumed: int
    notes: Notes = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """For notebooks: the best points by goodput."""
        from .notebook import outcome_html

        return outcome_html(self.rows)


def run_sweep(
    spec: SweepSpec,
    out: Path,
    *,
    jobs: int = 1,
    backend: str = "loky",
    progress: Progress | None = None,
) -> SweepOutcome:
    """Run every point that `out` does not hold yet, then write the sweep's files.

    jobs: processes; -1 is one per core. backend: `loky` for processes here, `ray` or `dask` for a
    cluster. The files are the same whatever they are.
    Points that cannot be resolved are rows with status `invalid`, runs that go wrong rows with
    status `failed`, each with its reason; `points/` in `out` keeps what is done, so that the same
    call goes on after a crash. A failed run is tried again.

    Raises:
        ConfigError: `out` cannot be used, or holds another sweep or a run; no such jobs or
            backend; seeds that change nothing; no room to write what is done.
            No point can be run: then nothing is written.
        RunwayError: the workload that all points share cannot be read.
    """
    check_workers(jobs, backend)
    warm_up(jobs, backend)
    store = PointStore(out)
    records, waiting = list_jobs(spec)
    files = read_files(job.config for job in waiting)
    _check(spec, records, waiting, in_memory(files))
    store.open(spec)
    resumed = _take_up(store, records, waiting)
    _tell(progress, records, spec, 0.0)
    if not waiting:
        jobs, backend = 1, "loky"
    with store.writing(), workers(files, store.folder, jobs=jobs, backend=backend) as pool:
        simulated_s = 0.0
        shown: dict[int, Shown] = {}
        for key, record in _run(pool, store, waiting, _foreseen(spec, records, pool), shown):
            records[key] = record
            simulated_s += record.get("simulated_s", 0.0)
            _tell(progress, records, spec, simulated_s)
        ordered = [_of_point(spec, records, index) for index in range(len(spec))]
        rows = sweep_frame(spec, ordered)
        moment = moment_frame(spec, rows, pool, shown)
    write_sweep(spec, out, ordered, rows, moment)
    counts = Counter(record["status"] for record in ordered)
    return SweepOutcome(
        rows,
        ok=counts["ok"],
        invalid=counts["invalid"],
        failed=counts["failed"],
        resumed=resumed,
        notes=notes_of(ordered),
    )


def _check(
    spec: SweepSpec,
    records: Mapping[Key, Record],
    waiting: Sequence[Job],
    files: Mapping[str, Handle],
) -> None:
    """Refuse, before anything is written, what would be wrong at every point."""
    if waiting and not {"trace", "format", "columns"} & {*spec.varied}:
        config = waiting[0].config
        shared_workload(config, _handle(config, files))
    _require_one(records, waiting, files)
    varied = [seed for seed in spec.grid.get("seed", ()) if isinstance(seed, int)]
    for name, seeds in (("seeds", spec.seeds), ("seed", varied)):
        if len(seeds) > 1:
            _require_seeds_that_matter(name, seeds[:2], spec, waiting, files)


def _require_one(
    records: Mapping[Key, Record], waiting: Sequence[Job], files: Mapping[str, Handle]
) -> None:
    """Refuse a sweep none of whose points can be run, as a setting that all share makes it."""
    reasons = {key[0]: str(record["reason"]) for key, record in records.items()}
    for job in waiting:
        reason = refusal(job.config, _handle(job.config, files))
        if reason is None:
            return
        reasons.setdefault(job.key[0], reason)
    different = list(dict.fromkeys(reasons[index] for index in sorted(reasons)))
    several = f"none of the {len(reasons)} points can be run\n" if len(different) > 1 else ""
    raise ConfigError(several + "\n".join(different))


def _require_seeds_that_matter(
    name: str,
    seeds: Sequence[int],
    spec: SweepSpec,
    waiting: Sequence[Job],
    files: Mapping[str, Handle],
) -> None:
    """Equal runs would be equal rows, or make an interval of no width, which says nothing.

    name: of the setting that gives the seeds.
    """
    point = next(point for point in spec.points() if point.index == waiting[0].key[0])
    configs = [spec.config(point, seed) for seed in seeds]
    digests = [
        requests_digest(shared_workload(config, _handle(config, files)).trace) for config in configs
    ]
    if digests[0] == digests[1]:
        raise ConfigError(
            f"seeds {seeds[0]} and {seeds[1]} make the same requests: a recorded trace "
            f"has no other seed. Drop {name}, or generate the workload (--preset, --requests)"
        )


def _take_up(store: PointStore, records: dict[Key, Record], waiting: list[Job]) -> int:
    """Move jobs with a finished record from `waiting` to `records`; how many."""
    found = {job.key: store.finished(job.key[0], job.config) for job in waiting}
    kept = {key: record for key, record in found.items() if record is not None}
    records.update(kept)
    waiting[:] = [job for job in waiting if job.key not in kept]
    return len(kept)


def _foreseen(spec: SweepSpec, records: Mapping[Key, Record], pool: Workers) -> Sequence[Lane]:
    refused = {key[0] for key, record in records.items() if record["status"] == "invalid"}
    return foreseen_lanes(spec, {*range(len(spec))} - refused, pool.handles)


def _run(
    pool: Workers,
    store: PointStore,
    waiting: Sequence[Job],
    lanes: Sequence[Lane],
    shown: dict[int, Shown],
) -> Iterator[tuple[Key, Record]]:
    """Records as they are ready, each kept before it is handed on.

    lanes: to be done by a process that finds no run left, while others still have one. shown: where
    they are put, by point.
    """
    configs = {job.key: job.config for job in waiting}
    shared = [Job(j.key, j.config, _handle(j.config, pool.handles)) for j in waiting]
    work: list[Job | Lane] = [*shared, *lanes]
    ready = pool.run(_do, work, _died)
    for name in FOR_THE_TABLE:
        import_module(name)  # others are at work now
    for done in ready:
        if isinstance(done, Shown):
            shown[done.point] = done
        elif done is not None:
            key, record = done
            store.keep(key[0], configs[key], record)
            yield key, record


def _handle(config: RunConfig, files: Mapping[str, Handle]) -> Handle | None:
    return files.get(file_key(config) or "")


def _do(job: Job | Lane) -> tuple[Key, Record] | Shown | None:
    return try_to_show(job) if isinstance(job, Lane) else run_job(job)


def _died(job: Job | Lane, how: str) -> tuple[Key, Record] | None:
    return None if isinstance(job, Lane) else (job.key, failed(f"its process died ({how})"))


def _of_point(spec: SweepSpec, records: Mapping[Key, Record], index: int) -> Record:
    return combined([records[index, place] for place in range(len(spec.runs))], spec.runs)


def _tell(
    progress: Progress | None, records: Mapping[Key, Record], spec: SweepSpec, simulated_s: float
) -> None:
    if progress is not None:
        progress(len(records), len(spec) * len(spec.runs), simulated_s)
