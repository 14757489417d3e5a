"""Where jobs run: in this process, in processes of this machine, or on a Ray or Dask cluster.

All give the same results, each as soon as it is ready, so that it can be kept. A cluster is the one
that the environment names (`RAY_ADDRESS`, `DASK_SCHEDULER_ADDRESS`) or that this process is
connected to; else one that already runs on this machine (Ray); else a local one is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from experiments.workload import TraceFile
from simulator.errors import ConfigError, nearest

from .processes import Died, Unordered, processes
from .sharing import Handle, in_dask, in_memory, in_ray, mapped

Job = TypeVar("Job")
Done = TypeVar("Done")

BACKENDS = {"loky": "joblib", "ray": "ray", "dask": "distributed"}
"""Name -> the package it needs; the last two come with the extras of their names."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Processes ready to work. handles: of the trace files, by key, as those processes need it."""

    handles: Mapping[str, Handle]
    _unordered: Unordered

    def run(
        self, function: Callable[[Job], Done], jobs: Sequence[Job], died: Died | None = None
    ) -> Iterator[Done]:
        """Results in the order they are ready.

        died: the result of a job that ends its process, where it is one of this machine's own for
        workers.

        Raises:
            RunwayError: a worker process was killed, and nobody says what its job gives then.
        """
        return self._unordered(function, jobs, died)


def check_workers(jobs: int, backend: str) -> None:
    """Refuse what cannot work before anything is done.

    Raises:
        ConfigError: no such backend, its extra is not installed, or no number of processes.
    """
    if jobs < 1 and jobs != -1:
        raise ConfigError(f"jobs is {jobs}, must be at least 1, or -1 for one per core")
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise ConfigError(f"backend {backend!r} is none of {known}{nearest(backend, BACKENDS)}")
    if find_spec(BACKENDS[backend]) is None:
        raise ConfigError(
            f"backend {backend} needs the package {BACKENDS[backend]}: "
            f"pip install 'llm-runway[{backend}]'"
        )


@contextmanager
def workers(
    files: Mapping[str, TraceFile], folder: Path, *, jobs: int, backend: str
) -> Iterator[Workers]:
    """Processes that can get at these trace files.

    folder: for what processes of this machine share. jobs: -1 is all cores, here or of a cluster.
    """
    if backend == "ray":
        with _ray(jobs) as unordered:
            yield Workers(in_ray(files), unordered)
    elif backend == "dask":
        with _dask(jobs) as client, in_dask(files, client) as handles:
            yield Workers(handles, lambda function, each, _=None: _by_dask(function, each, jobs))
    elif jobs == 1:
        yield Workers(in_memory(files), lambda function, each, _=None: map(function, each))
    else:
        with mapped(files, folder) as handles, processes(jobs) as unordered:
            yield Workers(handles, unordered)


def _by_dask(function: Callable[[Job], Done], each: Sequence[Job], jobs: int) -> Iterator[Done]:
    from joblib import Parallel, delayed, parallel_config

    # Dask is known to joblib only by this way of naming it.
    with parallel_config(backend="dask", n_jobs=jobs):
        pool = Parallel(return_as="generator_unordered", batch_size=1)
        results: Iterator[Done] = pool(delayed(function)(job) for job in each)
    return results


@contextmanager
def _ray(jobs: int) -> Iterator[Unordered]:
    """Ray's pool itself: joblib's Ray backend cannot hand over one result before the last is ready.

    A connection to a cluster that was there before is left as it was.
    """
    ray: Any = import_module("ray")  # Any: an extra, perhaps not installed
    pools: Any = import_module("ray.util.multiprocessing")  # Any: as above
    ours = not ray.is_initialized()
    if ours:
        ray.init(logging_level="warning", log_to_driver=False, include_dashboard=False)
    try:
        pool = pools.Pool(None if jobs == -1 else jobs)
        yield lambda function, each, _=None: pool.imap_unordered(function, each, chunksize=1)
        pool.terminate()
    finally:
        if ours:
            ray.shutdown()


@contextmanager
def _dask(jobs: int) -> Iterator[Any]:
    """A client of a Dask cluster. Any: Dask is an extra without types."""
    distributed: Any = import_module("distributed")  # Any: an extra, perhaps not installed
    with suppress(ValueError):  # this process has no client yet
        yield distributed.get_client()
        return
    with ExitStack() as stack:
        cluster = None
        if not import_module("dask").config.get("scheduler-address", None):
            count = None if jobs == -1 else jobs
            local = distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=None
            )
            cluster = stack.enter_context(local)
        yield stack.enter_context(distributed.Client(cluster))
