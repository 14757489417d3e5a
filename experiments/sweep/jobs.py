"""The runs that a sweep consists of, in the order in which they are started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from experiments.config import RunConfig
from simulator.errors import ConfigError

from .point import invalid, run_point, workload_settings
from .sharing import Handle
from .spec import SweepSpec
from .store import Record

Key = tuple[int, int]
"""Which run: index of its point, place of its seed."""


@dataclass(frozen=True, slots=True)
class Job:
    """A run that has to be done. file: its trace file, for the process that does it."""

    key: Key
    config: RunConfig
    file: Handle | None = None


def run_job(job: Job) -> tuple[Key, Record]:
    """Its record, in whatever process; a run that goes wrong has one too."""
    return job.key, run_point(job.config, job.file)


def list_jobs(spec: SweepSpec) -> tuple[dict[Key, Record], list[Job]]:
    """Records of runs that cannot be resolved, and the jobs in the order they are started."""
    records: dict[Key, Record] = {}
    jobs: list[Job] = []
    for point in spec.points():
        for place, seed in enumerate(spec.runs):
            try:
                config = spec.config(point, seed)
            except ConfigError as error:
                records[point.index, place] = invalid(str(error))
            else:
                jobs.append(Job((point.index, place), config))
    return records, _longest_first(jobs)


def _longest_first(jobs: Sequence[Job]) -> list[Job]:
    """Those that take longest first, so that no process waits long for another at the end.

    That is those with the most requests, then the lowest rate, at which steps are many and small,
    then the least tokens in a step. Equal workloads stay side by side: each is built once a
    process.
    """
    first: dict[str, Key] = {}
    for job in jobs:
        first.setdefault(workload_settings(job.config), job.key)

    def order(job: Job) -> tuple[float, float, Key, float, Key]:
        config = job.config
        return (
            -_least(config.requests, config.head),
            _least(config.rate),
            first[workload_settings(config)],
            _least(config.chunk_size, config.max_num_batched_tokens),
            job.key,
        )

    return sorted(jobs, key=order)


def _least(*limits: float | None) -> float:
    return min((limit for limit in limits if limit is not None), default=inf)
