"""Worker processes of this machine: loky's, forked from one process that has loaded everything."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any

from experiments.fork_server import fork_context, warm_up
from simulator.errors import RunwayError

Unordered = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]
"""Applies a function to jobs and yields results as they come. Any: a job and what it gives."""


@contextmanager
def processes(jobs: int) -> Iterator[Unordered]:
    """So many processes, -1 for one per core: started with the first jobs, gone afterwards.

    A job that comes alone is done here. A process that is killed is a RunwayError.
    """
    import joblib
    from joblib.externals.loky import ProcessPoolExecutor

    warm_up(jobs, "loky")
    context = fork_context()
    pool = ProcessPoolExecutor(
        joblib.cpu_count() if jobs == -1 else jobs,
        context=context,
        initializer=_obey_leader if context else None,
    )
    try:
        yield partial(_unordered, pool, jobs)
    except BaseException:
        pool.shutdown(kill_workers=True)
        raise
    pool.shutdown()


def _unordered(
    pool: Any,  # loky publishes no types
    jobs: int,
    function: Callable[[Any], Any],  # Any: as for `Unordered`
    each: Sequence[Any],
) -> Iterator[Any]:
    """Work has begun when this returns."""
    if len(each) <= 1:
        return map(function, each)
    return _as_ready([pool.submit(function, job) for job in each], jobs)


def _as_ready(pending: Sequence[Future[Any]], jobs: int) -> Iterator[Any]:
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    try:
        for done in as_completed(pending):
            yield done.result()
    except TerminatedWorkerError:
        raise RunwayError(
            f"a worker process was killed, perhaps for want of memory (jobs {jobs}): run the "
            "same command again, with fewer jobs; what is done is kept"
        ) from None


def _obey_leader() -> None:
    """In a worker: leave Ctrl-C to the process that leads, and end when that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_leader, daemon=True).start()


def _end_with_leader() -> None:
    """Even after `kill -9`."""
    leader = multiprocessing.parent_process()
    assert leader is not None
    leader.join()
    os._exit(1)
