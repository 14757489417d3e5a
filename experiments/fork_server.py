"""A process that loads, once, what every worker needs; workers are forked from it, ready at once.

It loads while the process that leads is still busy with its own start. To fork that process
instead is not safe where it has threads; a worker that starts from nothing loads all of it again.
"""

from __future__ import annotations

import atexit
import multiprocessing.context
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""In the environment before NumPy is loaded: its threads, which nothing here has work for, spin
for 0.1 s when they start, on a core that another process needs."""

_AVAILABLE = sys.platform == "linux"
"""Elsewhere processes do not fork, or not with numerical libraries in them."""


def warm_up(jobs: int, backend: str) -> None:
    """Start it where `--jobs` and `--backend` mean processes of this machine; a cluster is ready.

    Returns at once. It is started once, and ends with this process. Ctrl-C in a terminal, which
    reaches all processes there, it leaves to this one.
    """
    if _AVAILABLE and jobs != 1 and backend == "loky":
        from multiprocessing import forkserver, resource_tracker

        forkserver.set_forkserver_preload(["experiments.loaded"])
        resource_tracker.ensure_running()  # before: to start it unblocks the signal
        with _ctrl_c_blocked(), _one_thread():
            forkserver.ensure_running()


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_thread() -> Iterator[None]:
    ours = ONE_THREAD.keys() - os.environ.keys()
    os.environ.update(ONE_THREAD | {**os.environ})
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def fork_context() -> BaseContext | None:
    """For processes that are forked from it; None where there is no such thing."""
    if not _AVAILABLE:
        return None
    _wait_at_exit()
    return _Context()


class _Process(multiprocessing.context.ForkServerProcess):
    """It does not import the leader's program, which may be a script that sweeps as it is read."""

    @staticmethod
    def _Popen(process: BaseProcess) -> Any:  # noqa: N802  # the name multiprocessing calls
        program = vars(sys.modules["__main__"])
        names = [name for name in ("__file__", "__spec__") if name in program]
        known: dict[str, Any] = {name: program.pop(name) for name in names}
        program["__spec__"] = None
        try:
            return multiprocessing.context.ForkServerProcess._Popen(process)
        finally:
            program.update(known)


class _Context(multiprocessing.context.ForkServerContext):
    Process = _Process


@cache
def _wait_at_exit() -> None:
    """As it waits for its workers: `time` then shows what all of them took."""
    from multiprocessing import forkserver

    atexit.register(forkserver._forkserver._stop)  # type: ignore[attr-defined]  # not in typeshed
