"""Worker processes of this machine: loky's, forked from one process that has loaded everything."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, Protocol

from experiments.fork_server import fork_context, warm_up
from simulator.errors import RunwayError

Died = Callable[[Any, str], Any]
"""The result of a job whose process has died; called with the job and how it died. Any: a job."""


class Unordered(Protocol):
    """Applies a function to jobs and yields results as they come.

    died: what a job gives that ends its process; without it, it ends the others too. Any: a job
    and what it gives.
    """

    def __call__(
        self, function: Callable[[Any], Any], each: Sequence[Any], died: Died | None = None, /
    ) -> Iterator[Any]: ...


@contextmanager
def processes(jobs: int) -> Iterator[Unordered]:
    """So many processes, -1 for one per core: started with the first jobs, gone afterwards.

    A job that comes alone, and that nobody fears to end its process, is done here. A process that
    is killed is a RunwayError, where nobody says what its job gives then.
    """
    warm_up(jobs, "loky")
    pool = _Pool(jobs)
    try:
        yield pool.unordered
    except BaseException:
        pool.kill()
        raise
    pool.close()


class _Pool:
    """Processes that are replaced when one of them has died."""

    def __init__(self, jobs: int) -> None:
        import joblib

        self._jobs = jobs
        self._count: int = joblib.cpu_count() if jobs == -1 else jobs
        self._context = fork_context()
        self._executor = self._start(self._count)

    def unordered(
        self,
        function: Callable[[Any], Any],  # Any: as for `Unordered`
        each: Sequence[Any],
        died: Died | None = None,
        /,
    ) -> Iterator[Any]:
        """Work has begun when this returns."""
        if len(each) <= 1 and died is None:
            return map(function, each)
        return self._as_ready(function, self._submit(function, each), died)

    def close(self) -> None:
        """When all jobs are done."""
        self._executor.shutdown()

    def kill(self) -> None:
        """In the middle of jobs."""
        with suppress(queue.Empty):
            while True:  # else loky's own thread may look for jobs that it has dropped
                self._executor._work_ids.get_nowait()
        self._executor.shutdown(kill_workers=True)

    def _start(self, count: int) -> Any:  # loky publishes no types
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(
            count, context=self._context, initializer=_obey_leader if self._context else None
        )

    def _replace(self, count: int) -> None:
        self._executor.shutdown()
        self._executor = self._start(count)

    def _submit(
        self, function: Callable[[Any], Any], each: Sequence[Any]
    ) -> dict[Future[Any], Any]:  # Any: as for `Unordered`
        """Futures of jobs, in their order. A pool that has broken fails them."""
        futures: dict[Future[Any], Any] = {}
        for job in each:
            try:
                future = self._executor.submit(function, job)
            except BrokenProcessPool as error:
                future = Future()
                future.set_exception(error)
            futures[future] = job
        return futures

    def _as_ready(
        self, function: Callable[[Any], Any], futures: dict[Future[Any], Any], died: Died | None
    ) -> Iterator[Any]:  # Any: as for `Unordered`
        """Jobs that may have ended a process come last, one at a time."""
        suspects: list[Any] = []
        while futures:
            lost = set()
            for done in as_completed(futures):
                if isinstance(done.exception(), BrokenProcessPool):
                    lost.add(done)
                else:
                    yield done.result()
            left = [job for future, job in futures.items() if future in lost]
            if left and died is None:
                raise RunwayError(
                    f"a worker process was killed, perhaps for want of memory (jobs {self._jobs}): "
                    "run the same command again, with fewer jobs; what is done is kept"
                )
            # Jobs are taken in their order, so these are the ones that a process had begun.
            suspects += left[: self._count]
            if left:
                self._replace(self._count)
            futures = self._submit(function, left[self._count :])
        if died is not None and suspects:
            for job in suspects:
                yield self._alone(function, job, died)
            self._replace(self._count)

    def _alone(self, function: Callable[[Any], Any], job: Any, died: Died) -> Any:
        """Any: as for `Unordered`."""
        self._replace(1)
        future = self._executor.submit(function, job)
        [process] = self._executor._processes.values()
        try:
            return future.result()
        except BrokenProcessPool:
            self._executor.shutdown()
            return died(job, _end(process.exitcode))


def _end(exit_code: int) -> str:
    """How a process ended, in words.

    >>> _end(-9), _end(-11), _end(3)
    ('killed by signal 9: out of memory?', 'killed by signal 11', 'exit code 3')
    """
    if exit_code >= 0:
        return f"exit code {exit_code}"
    why = ": out of memory?" if exit_code == -signal.SIGKILL else ""
    return f"killed by signal {-exit_code}{why}"


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
