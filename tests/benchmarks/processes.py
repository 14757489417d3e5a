"""Run a program to its end and ask the operating system what it took."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One finished process: wall and CPU seconds, peak resident memory in GB, standard output."""

    wall_s: float
    cpu_s: float
    peak_gb: float
    output: str


def run(command: Sequence[str], *, cwd: str | os.PathLike[str] | None = None) -> Run:
    """Run a command and account for it, start-up of the process included.

    Raises:
        RuntimeError: it failed; the message has the end of what it wrote to standard error.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors, cwd=cwd)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} failed:\n{errors.read()[-2000:]}")
        output.seek(0)
        peak_gb = usage.ru_maxrss * 1024 / 1e9
        return Run(wall_s, usage.ru_utime + usage.ru_stime, peak_gb, output.read())
