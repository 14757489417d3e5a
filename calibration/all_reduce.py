"""The all-reduce of tensor parallelism: timed over the devices there are, or from two numbers.

Given a bandwidth B and a latency L, `tp` devices take L + 2 (tp - 1) / tp x bytes / B, which is a
ring's. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms" (2009).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import (
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
)

from .device import clock_of
from .errors import CalibrationError
from .settings import Settings
from .timing import Clock, Lap
from .trial import Trial

WARMUP, SAMPLES = 3, 21


class AllReduce(NamedTuple):
    """points: (bytes, microseconds) of one call, ascending. origin: measured or given."""

    points: list[tuple[int, float]]
    origin: str
    bytes_per_token: int


def all_reduce_of(
    settings: Settings, hidden: int, dtype: torch.dtype, tokens: list[int]
) -> AllReduce | None:
    """What an all-reduce of so many tokens' hidden states takes; None on one device.

    Raises CalibrationError if it is neither given nor can be timed.
    """
    tp, per_token = settings.tensor_parallel_size, hidden * dtype.itemsize
    if tp == 1:
        return None
    bandwidth, latency_us = settings.all_reduce_bandwidth, settings.all_reduce_latency
    if bandwidth is not None and latency_us is not None:
        points = [
            (n * per_token, ring_us(n * per_token, tp, bandwidth, latency_us)) for n in tokens
        ]
        origin = f"given, not measured: {bandwidth:g} GB/s and {latency_us:g} us, a ring of {tp}"
        return AllReduce([points[0], points[-1]], origin, per_token)
    if settings.is_cuda and torch.cuda.device_count() < tp:
        raise CalibrationError(
            f"tensor parallel size {tp} needs {tp} CUDA devices to time the all-reduce, there are "
            f"{torch.cuda.device_count()}: give --all-reduce-bandwidth and --all-reduce-latency"
        )
    library = "nccl" if settings.is_cuda else "gloo"
    times = timed(library, tp, [n * hidden for n in tokens], dtype)
    points = [
        (n * per_token, trial.undisturbed.median_ns / 1e3)
        for n, trial in zip(tokens, times, strict=True)
    ]
    return AllReduce(points, f"timed with torch.distributed ({library}), {tp} processes", per_token)


def ring_us(count: int, tp: int, bandwidth_gb_s: float, latency_us: float) -> float:
    """Microseconds of a ring over `tp` devices for so many bytes.

    >>> ring_us(1_000_000, 2, 100.0, 5.0)
    15.0
    """
    return latency_us + 2 * (tp - 1) / tp * count / (bandwidth_gb_s * 1e3)


def timed(library: str, tp: int, elements: list[int], dtype: torch.dtype) -> list[Trial]:
    """Time an all-reduce of each number of elements, in `tp` processes of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        meeting, result = Path(folder, "meeting"), Path(folder, "times.json")
        given = (tp, library, elements, dtype, meeting.as_uri(), str(result))
        try:
            spawn(_one_of, args=given, nprocs=tp)  # type: ignore[no-untyped-call]
        except (ProcessRaisedException, ProcessExitedException) as error:
            said = str(error).strip().splitlines()[-1]
            raise CalibrationError(
                f"the all-reduce over {tp} processes failed ({said}): give "
                "--all-reduce-bandwidth and --all-reduce-latency"
            ) from None
        return [Trial(tuple(ns)) for ns in json.loads(result.read_text())]


def _one_of(
    rank: int,
    *given: object,
) -> None:
    """One of the processes; the first writes what it took."""
    tp, library, elements, dtype, meeting, result = given
    assert isinstance(tp, int)
    assert isinstance(elements, list)
    device = f"cuda:{rank}" if library == "nccl" else "cpu"
    torch.set_num_threads(1)  # the processes share one CPU's cores
    if library == "nccl":
        torch.cuda.set_device(rank)
    dist.init_process_group(str(library), init_method=str(meeting), rank=rank, world_size=tp)
    clock = clock_of(device)
    times = [_samples_ns(clock, torch.empty(n, device=device, dtype=dtype), tp) for n in elements]  # type: ignore[call-overload]
    if rank == 0:
        Path(str(result)).write_text(json.dumps(times))
    dist.destroy_process_group()


def _samples_ns(clock: Clock, values: Tensor, tp: int) -> list[float]:
    """Times of one process, which meets the others right before: what one waits is no transfer."""
    values.normal_()
    meeting = values[:1].clone()

    def reduce(lap: Lap) -> None:
        dist.all_reduce(meeting)
        lap("meeting")
        dist.all_reduce(values)
        lap("all-reduce")

    samples = []
    for _ in range(WARMUP + SAMPLES):
        samples.append(clock.laps_ns(reduce)["all-reduce"])
        for summed in (values, meeting):
            summed.div_(tp)  # else sums grow until they overflow
    return samples[WARMUP:]
