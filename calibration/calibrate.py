"""`calibrate`: time a model's kernels on a device and write the cost table of the two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from .device import (
    DTYPES,
    GIB,
    check_device,
    device_title,
    kv_bytes,
    memory_bytes,
)
from .errors import CalibrationError
from .grid import Limits, Shape, grid_of, held_out_of
from .kernel_table import document_of, grids_of, held_out_errors, held_out_section, write_document
from .kernels import Decoder
from .measuring import Progress, StepTimer, measure_all
from .provenance import provenance_of
from .sizes import DecoderSizes, find_sizes
from .trial import Trial, totals_ns
from .trials import TrialLog

BLOCK_SIZE = 16
HOST_EVERY = 4
"""Every so many shapes of the grid are timed end to end too, for the host's time per step."""
NOISY = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to calibrate. time_budget_s: seconds; the limits are counts, None for the device's own
    (CPU: 1,024 tokens, 32 sequences, 2,048 of context; GPU: 8,192, 256, 32,768).
    """

    model: str
    output: Path
    device: str = "cpu"
    dtype: str = "float32"
    time_budget_s: float = 90.0
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    max_model_len: int | None = None
    threads: int | None = None
    seed: int = 0
    name: str | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if not self.time_budget_s > 0:
            raise CalibrationError(f"time budget is {self.time_budget_s} s: must be above 0")
        for what in ("max_num_batched_tokens", "max_num_seqs", "max_model_len", "threads"):
            value, least = getattr(self, what), 32 if what.endswith(("tokens", "len")) else 1
            if value is not None and value < least:
                raise CalibrationError(f"{what} is {value}: must be at least {least}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """held_out: the table's section. noisy: shapes whose samples spread over 10 %; skipped:
    shape -> reason.
    """

    output: Path
    held_out: dict[str, object]
    errors: list[float]
    noisy: int
    skipped: dict[Shape, str]

    @property
    def summary(self) -> str:
        """What the command prints."""
        median, p90 = (100 * float(str(self.held_out[key])) for key in ("median", "p90"))
        lines = [
            f"{self.output}: held-out error median {median:.1f} %, p90 {p90:.1f} % "
            f"({len(self.errors)} whole steps the table was not built from)"
        ]
        if self.noisy:
            lines.append(
                f"{self.noisy} shapes still spread over {NOISY:.0%}: let the machine rest, or give "
                "more --time-budget"
            )
        lines += [f"skipped {tuple(shape)}: {reason}" for shape, reason in self.skipped.items()]
        return "\n".join(lines)


def calibrate(
    settings: Settings, progress: Progress = lambda share, done, total: None, *, command: str = ""
) -> Outcome:
    """Measure, and write the table; a `.partial` file beside it keeps all raw samples.

    command: how it was called, for the provenance. Raises CalibrationError for a model, device or
    setting that cannot be calibrated.
    """
    sizes = find_sizes(settings.model)
    check_device(settings.device, settings.dtype)
    if settings.device.startswith("cuda"):
        torch.cuda.set_device(settings.device)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    limits = limits_of(settings, sizes)
    grid = grid_of(limits)
    held_out = held_out_of(limits, grid, settings.seed)
    log = TrialLog(
        settings.output.with_name(f"{settings.output.name}.partial"),
        _identity(settings, sizes, limits),
        resume=settings.resume,
    )
    with torch.inference_mode():
        timer = StepTimer(
            Decoder(
                sizes,
                device=settings.device,
                dtype=DTYPES[settings.dtype],
                cache_tokens=limits.cache_tokens,
                seed=settings.seed,
            )
        )
        jobs = [(shape, False) for shape in grid]
        jobs += [(shape, True) for shape in (*grid[::HOST_EVERY], *held_out)]
        measure_all(
            *(timer, log, jobs),
            budget_s=settings.time_budget_s,
            seed=settings.seed,
            progress=progress,
        )
    grids = grids_of(log, grid, sizes.layers, timer.lapped_layers)
    errors = held_out_errors(grids, log, held_out)
    section = held_out_section(errors, settings.seed)
    document = document_of(
        grids,
        name=settings.name or f"{sizes.name}-{settings.device.replace(':', '')}-{settings.dtype}",
        description=f"{sizes.name} in {settings.dtype} on {device_title(settings.device)}",
        provenance=provenance_of(settings.device, settings.dtype, sizes, log, command),
        held_out=section,
        engine=_engine(settings, sizes),
    )
    write_document(document, settings.output)
    return Outcome(settings.output, section, errors, _noisy(log), log.skipped)


def limits_of(settings: Settings, sizes: DecoderSizes) -> Limits:
    """The largest step to time. CalibrationError if weights and cache do not fit the device."""
    gpu = settings.device.startswith("cuda")
    tokens = settings.max_num_batched_tokens or (8192 if gpu else 1024)
    seqs = settings.max_num_seqs or (256 if gpu else 32)
    context = settings.max_model_len or (32768 if gpu else 2048)
    context = min(context, sizes.max_model_len or context)
    element = DTYPES[settings.dtype].itemsize
    free, weights = memory_bytes(settings.device), sizes.weights * element
    per_token = sizes.kv_elements_per_token * element
    # Half of what is left: activations, logits and the other processes need the rest.
    held = int((free - weights) / 2 // per_token)
    if held < 2 * context:
        raise CalibrationError(
            f"{sizes.name} needs {weights / GIB:.1f} GiB of weights and "
            f"{4 * context * per_token / GIB:.1f} GiB around {context} tokens of context; "
            f"{settings.device} has {free / GIB:.1f} GiB free: take a smaller dtype, model or "
            "--max-model-len"
        )
    return Limits(tokens, seqs, context, min(held, (seqs + 1) * context), fine=gpu)


def _identity(settings: Settings, sizes: DecoderSizes, limits: Limits) -> dict[str, object]:
    return {
        "model": [str(getattr(sizes, field)) for field in DecoderSizes.__dataclass_fields__],
        "device": device_title(settings.device),
        "dtype": settings.dtype,
        "torch": torch.__version__,
        "limits": list(limits[:3]),
        "seed": settings.seed,
    }


def _engine(settings: Settings, sizes: DecoderSizes) -> dict[str, object]:
    element = DTYPES[settings.dtype].itemsize
    held, origin = kv_bytes(settings.device, sizes.weights * element)
    blocks = held // (sizes.kv_elements_per_token * element * BLOCK_SIZE)
    engine: dict[str, object] = {}
    if blocks > 0:
        engine["kv"] = {"blocks": blocks, "block_size": BLOCK_SIZE, "origin": origin}
    if sizes.max_model_len:
        engine["max_model_len"] = sizes.max_model_len
    return engine


def _noisy(log: TrialLog) -> int:
    return sum(Trial(tuple(totals_ns(trials))).spread > NOISY for _, trials in log)
