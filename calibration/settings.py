"""What to calibrate: the flags of the command, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import CalibrationError
from .smoothing import SMOOTHINGS

LARGEST_CAPTURED = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to calibrate. time_budget_s: seconds; the limits are counts, None for the device's own
    (CPU: 1,024 tokens, 32 sequences, 2,048 of context; GPU: 8,192, 256, 32,768).

    threads: of torch on a CPU, and clock, one of `device.CLOCKS`: None for what suits a CPU that
    others use too, or not, right now (`machine.steady`). all_reduce_bandwidth: GB/s
    of a ring; all_reduce_latency: microseconds; both, where it is not to be timed.
    cudagraph_capture_sizes: decode batches that are padded to; None for the engine's own on CUDA.
    """

    model: str
    output: Path
    device: str = "cpu"
    dtype: str = "float32"
    kv_cache_dtype: str = "auto"
    tensor_parallel_size: int = 1
    all_reduce_bandwidth: float | None = None
    all_reduce_latency: float | None = None
    attention_backend: str = "auto"
    cudagraph_capture_sizes: tuple[int, ...] | None = None
    smooth: str = "none"
    time_budget_s: float = 90.0
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    max_model_len: int | None = None
    threads: int | None = None
    clock: str | None = None
    seed: int = 0
    name: str | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if not self.time_budget_s > 0:
            raise CalibrationError(f"time budget is {self.time_budget_s} s: must be above 0")
        for what in (
            *("max_num_batched_tokens", "max_num_seqs", "max_model_len", "threads"),
            "tensor_parallel_size",
        ):
            value, least = getattr(self, what), 32 if what.endswith(("tokens", "len")) else 1
            if value is not None and value < least:
                raise CalibrationError(f"{what} is {value}: must be at least {least}")
        if self.smooth not in SMOOTHINGS:
            raise CalibrationError(f"smooth is {self.smooth!r}: must be {' or '.join(SMOOTHINGS)}")
        sizes = self.cudagraph_capture_sizes or ()
        if list(sizes) != sorted({*sizes}) or min(sizes, default=1) < 1:
            raise CalibrationError(
                f"cudagraph capture sizes are {list(sizes)}: must be whole numbers, ascending"
            )
        _check_all_reduce(self)

    @property
    def is_cuda(self) -> bool:
        """Is the device a CUDA one?"""
        return self.device.startswith("cuda")


def _check_all_reduce(settings: Settings) -> None:
    given = {
        "--all-reduce-bandwidth": settings.all_reduce_bandwidth,
        "--all-reduce-latency": settings.all_reduce_latency,
    }
    for flag, value in given.items():
        if value is None:
            continue
        if settings.tensor_parallel_size == 1:
            raise CalibrationError(f"{flag} has no effect without --tensor-parallel-size")
        if not value > 0:
            raise CalibrationError(f"{flag} is {value}: must be above 0")
    if len({value is None for value in given.values()}) > 1:
        raise CalibrationError("an all-reduce takes both: give " + " and ".join(given))


def captured_sizes(settings: Settings, max_seqs: int) -> tuple[int, ...]:
    """Decode batches that are captured as CUDA graphs: those given, or on CUDA the engine's own.

    1, 2, 4, every 8 up to 256, every 16 up to twice `max_num_seqs`, at most 512.
    Source: vLLM, `VllmConfig._set_cudagraph_sizes`.
    """
    if settings.cudagraph_capture_sizes is not None:
        return settings.cudagraph_capture_sizes
    if not settings.is_cuda:
        return ()
    largest = min(2 * max_seqs, LARGEST_CAPTURED)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)]
    return tuple(size for size in sizes if size <= largest)
