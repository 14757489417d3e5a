"""A torch device: its clock, its memory, its name and what a table must say about it."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import torch

from .errors import CalibrationError
from .timing import Clock, HostClock, LappedWork, Work, by_name

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
GIB = 1024**3
CPU_KV_BYTES = 4 * GIB
"""vLLM's default KV cache space on a CPU."""
GPU_MEMORY_UTILIZATION = 0.9
SLEEP_CYCLES = 20_000_000
"""About 10 ms: long enough to queue a step behind it, so that no kernel waits for its launch."""


class CudaClock:
    """Device events: the time between two points of the stream, without the host's.

    Before every sample the L2 cache is overwritten; within a step, every layer has weights and
    cache of its own, so that no kernel finds there what the one of another layer left.
    """

    now_ns = staticmethod(time.perf_counter_ns)

    def __init__(self, device: str) -> None:
        cache_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self._flush = torch.empty(2 * cache_bytes, dtype=torch.uint8, device=device)

    def time_ns(self, work: Work, first: int, evaluations: int) -> float:
        """As `Clock.time_ns`."""

        def lapped(lap: object) -> None:
            for evaluation in range(first, first + evaluations):
                work(evaluation)

        return sum(ns for _, ns in self._events_ns(lapped)) / evaluations

    def laps_ns(self, work: LappedWork) -> dict[str, float]:
        """As `Clock.laps_ns`."""
        return by_name(lap for lap in self._events_ns(work) if lap[0])

    def _events_ns(self, work: LappedWork) -> list[tuple[str, float]]:
        self._flush.zero_()  # what the sample before left in the L2 cache goes
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]  # torch's own
        marks: list[tuple[str, torch.cuda.Event]] = []

        def lap(name: str) -> None:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            marks.append((name, event))

        lap("")
        work(lap)
        lap("")
        torch.cuda.synchronize()
        return [
            (name, start.elapsed_time(end) * 1e6) for (_, start), (name, end) in pairwise(marks)
        ]


def check_device(device: str, dtype: str) -> None:
    """CalibrationError for a device that is not there, or a dtype that is not timed."""
    if dtype not in DTYPES:
        raise CalibrationError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise CalibrationError(f"device {device!r} must be cpu, cuda or cuda:N")
    if kind == "cuda" and not torch.cuda.is_available():
        raise CalibrationError(f"device {device!r}: torch {torch.__version__} sees no CUDA device")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise CalibrationError(
            f"device {device!r}: there are {torch.cuda.device_count()}, numbered from 0"
        )


CLOCKS = {"wall": time.perf_counter_ns, "cpu": time.thread_time_ns}
"""Name -> nanoseconds. `cpu` is the CPU time of the calling thread, which leaves out what others
got of the CPU; the work must then be one thread's."""


def check_clock(clock: str, device: str) -> None:
    """CalibrationError for a clock that is not there, or that does not see the work.

    The number of torch's threads must have been set before.
    """
    if clock not in CLOCKS:
        raise CalibrationError(f"clock {clock!r} is not one of {', '.join(CLOCKS)}")
    if clock == "cpu" and (device != "cpu" or torch.get_num_threads() != 1):
        raise CalibrationError(
            f"clock cpu counts one thread's time, and the work on {device} is that of "
            f"{torch.get_num_threads() if device == 'cpu' else 'a GPU'}: give --device cpu "
            "--threads 1, or --clock wall"
        )


def clock_of(device: str, clock: str = "wall") -> Clock:
    """The clock of a device's kernels; on a CPU, one of `CLOCKS`."""
    return CudaClock(device) if device.startswith("cuda") else HostClock(CLOCKS[clock])


M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES, LARGEST_ON_HEAP = 1 << 30, 32 << 20
"""Of `mallopt(3)`: names, and the most that glibc takes for the second."""


def keep_freed_memory() -> None:
    """Let the C library keep what torch frees on a CPU, for the whole process.

    glibc gives large blocks back to the kernel, and the next step, of another shape, pays for its
    pages again: up to a fifth of its GEMMs' time, which a step timed over and over does not show.
    Engines run with an allocator that keeps them (vLLM's documentation for CPUs: tcmalloc).
    Without glibc, nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


@contextmanager
def use_threads(threads: int | None) -> Iterator[None]:
    """Let torch compute with so many threads, then as before; None: as it does."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def memory_bytes(device: str) -> int:
    """Free memory, bytes."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    available = "SC_AVPHYS_PAGES"  # not told on macOS, which tells only how much there is
    pages = available if available in os.sysconf_names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def kv_bytes(device: str, weight_bytes: int) -> tuple[int, str]:
    """What an engine would give the KV cache, bytes, and how that is known."""
    if not device.startswith("cuda"):
        return CPU_KV_BYTES, "4 GiB, the default KV cache space of vLLM on a CPU"
    total = torch.cuda.get_device_properties(device).total_memory
    origin = f"{GPU_MEMORY_UTILIZATION:.0%} of {total / GIB:.1f} GiB, less weights and 2 GiB"
    return int(GPU_MEMORY_UTILIZATION * total) - weight_bytes - 2 * GIB, origin


def device_title(device: str) -> str:
    """The device as its vendor names it."""
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(device))
    cores = f"{os.cpu_count()} CPUs, {torch.get_num_threads()} threads"
    return f"{_cpu_name()} ({cores})"


def clocks_of(device: str) -> str | None:
    """Clocks and power limit as nvidia-smi reads them (nothing is set); None where it is not."""
    if not device.startswith("cuda"):
        return None
    fields = "driver_version,clocks.sm,clocks.mem,power.limit"
    number = device.partition(":")[2] or "0"
    try:
        told = subprocess.run(
            ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "-i", number],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{fields}: {told.stdout.strip()}"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
