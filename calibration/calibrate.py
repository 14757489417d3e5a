"""`calibrate`: time a model's kernels on a device and write the cost table of the two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from .all_reduce import all_reduce_of
from .device import (
    DTYPES,
    GIB,
    check_clock,
    check_device,
    device_title,
    keep_freed_memory,
    kv_bytes,
    memory_bytes,
)
from .document import operators_of, steps_of, write_document
from .errors import CalibrationError
from .grid import Limits, Shape, grid_of, held_out_of, host_steps, token_ladder
from .kernel_table import (
    Measured,
    grids_of,
    held_out_errors,
    held_out_section,
    measured_of,
    with_host_time,
)
from .kernels import Decoder
from .kv_dtype import kv_dtype_of
from .machine import steady
from .measuring import Progress, StepTimer, measure_all
from .outcome import NOISY, Outcome
from .provenance import provenance_of
from .settings import Settings, captured_sizes
from .sizes import DecoderSizes, find_sizes
from .smoothing import smoothed
from .trial import spread_of, undisturbed
from .trials import TrialLog, begun_with

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class _Job:
    """Everything that follows from the settings before anything is timed."""

    settings: Settings
    sizes: DecoderSizes
    dtype: torch.dtype
    kv_dtype: torch.dtype
    limits: Limits
    captured: tuple[int, ...]
    grid: list[Shape]
    held_out: list[Shape]
    partial: Path
    clock: str


@dataclass(frozen=True, slots=True)
class _Timed:
    """What was timed. activated: experts of a layer, by tokens of the step."""

    decoder: Decoder
    measured: Measured
    activated: dict[int, float]
    not_captured: str | None


def calibrate(
    settings: Settings, progress: Progress = lambda share, done, total: None, *, command: str = ""
) -> Outcome:
    """Measure, and write the table; a `.partial` file beside it keeps all raw samples.

    command: how it was called, for the provenance. Raises CalibrationError for a model, device or
    setting that cannot be calibrated.
    """
    job = _job_of(settings)
    tokens = token_ladder(job.limits.max_tokens)
    all_reduce = all_reduce_of(settings, job.sizes.hidden, job.dtype, tokens)
    log = TrialLog(job.partial, _identity(job), resume=settings.resume)
    timed = _timed(job, log, progress)
    grids, smoothing = smoothed(
        grids_of(timed.measured, job.sizes.layers, job.captured), settings.smooth
    )
    grids = with_host_time(grids, log, job.grid)
    errors = held_out_errors(grids, log, job.held_out)
    section = held_out_section(errors, settings.seed)
    operators = operators_of(
        *(grids, timed.measured, job.sizes, job.dtype.itemsize),
        activated=timed.activated,
        all_reduce=all_reduce,
    )
    provenance = provenance_of(
        *(settings, timed.decoder, log),
        command=command,
        clock=job.clock,
        smoothing=smoothing,
        all_reduce=all_reduce.origin if all_reduce else None,
        not_captured=timed.not_captured,
    )
    document = {
        **{"runway_cost_table": 1, "kind": "operators", "name": settings.name or _name(job)},
        "description": _description(job),
        "parameters": {
            **{"layers": grids.layers, "host_us": grids.host_us, "host_combine": "sum"},
            "decode_attention": "padded" if timed.decoder.backend.pads else "paged",
            **({"decode_batch_sizes": list(job.captured)} if job.captured else {}),
        },
        **{"provenance": provenance, "held_out": section, **_engine(job)},
        "operators": {**operators, "steps": steps_of(log, job.grid, job.held_out)},
    }
    write_document(document, settings.output)
    noisy = sum(spread_of(undisturbed(trials)) > NOISY for _, trials in log)
    return Outcome(settings.output, section, errors, noisy, len([*log]), log.skipped)


def _job_of(settings: Settings) -> _Job:
    sizes = find_sizes(settings.model).divided(settings.tensor_parallel_size)
    check_device(settings.device, settings.dtype)
    dtype = DTYPES[settings.dtype]
    kv_dtype = kv_dtype_of(settings.kv_cache_dtype, dtype)
    partial = settings.output.with_name(f"{settings.output.name}.partial")
    clock = _prepare_device(settings, partial)
    limits = limits_of(settings, sizes)
    captured = captured_sizes(settings, limits.max_seqs)
    grid = grid_of(limits)
    held_out = held_out_of(limits, grid, settings.seed)
    return _Job(settings, sizes, dtype, kv_dtype, limits, captured, grid, held_out, partial, clock)


def _prepare_device(settings: Settings, partial: Path) -> str:
    """Set device and threads; the name of the clock."""
    if settings.is_cuda:
        torch.cuda.set_device(settings.device)
        clock = settings.clock or "wall"
    else:
        keep_freed_memory()
        threads, clock = steady(
            begun_with(partial) if settings.resume else (None, None),
            (settings.threads, settings.clock),
        )
        torch.set_num_threads(threads)
    check_clock(clock, settings.device)
    return clock


def _timed(job: _Job, log: TrialLog, progress: Progress) -> _Timed:
    settings = job.settings
    with torch.inference_mode():
        decoder = Decoder(
            job.sizes,
            device=settings.device,
            dtype=job.dtype,
            cache_tokens=job.limits.cache_tokens,
            seed=settings.seed,
            kv_dtype=job.kv_dtype,
            attention_backend=settings.attention_backend,
        )
        timer = StepTimer(decoder, job.clock, job.captured)
        jobs = [(shape, False) for shape in job.grid]
        jobs += [(shape, True) for shape in (*host_steps(job.grid, settings.seed), *job.held_out)]
        measure_all(
            *(timer, log, jobs),
            budget_s=settings.time_budget_s,
            seed=settings.seed,
            progress=progress,
        )
        measured = measured_of(log, job.grid, timer.lapped_layers)
        counts = measured.by_tokens.get("experts", {})
        activated = {count: timer.activated_experts(count) for count in counts}
    return _Timed(decoder, measured, activated, timer.not_captured)


def limits_of(settings: Settings, sizes: DecoderSizes) -> Limits:
    """The largest step to time. CalibrationError if weights and cache do not fit the device."""
    gpu = settings.is_cuda
    tokens = settings.max_num_batched_tokens or (8192 if gpu else 1024)
    seqs = settings.max_num_seqs or (256 if gpu else 32)
    context = settings.max_model_len or (32768 if gpu else 2048)
    context = min(context, sizes.max_model_len or context)
    dtype = DTYPES[settings.dtype]
    free, weights = memory_bytes(settings.device), sizes.weights * dtype.itemsize
    per_token = sizes.kv_elements_per_token * kv_dtype_of(settings.kv_cache_dtype, dtype).itemsize
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


def _identity(job: _Job) -> dict[str, object]:
    settings = job.settings
    return {
        "model": [str(getattr(job.sizes, field)) for field in DecoderSizes.__dataclass_fields__],
        "device": device_title(settings.device),
        "threads": torch.get_num_threads(),
        "clock": job.clock,
        "dtype": settings.dtype,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "attention_backend": settings.attention_backend,
        "captured": list(job.captured),
        "torch": torch.__version__,
        "limits": list(job.limits[:3]),
        "seed": settings.seed,
    }


def _name(job: _Job) -> str:
    settings = job.settings
    words = [job.sizes.name, settings.device.replace(":", ""), settings.dtype]
    if settings.kv_cache_dtype != "auto":
        words.append(f"kv-{settings.kv_cache_dtype}")
    if settings.tensor_parallel_size > 1:
        words.append(f"tp{settings.tensor_parallel_size}")
    return "-".join(words)


def _description(job: _Job) -> str:
    devices = device_title(job.settings.device)
    if job.settings.tensor_parallel_size > 1:
        devices = f"{job.settings.tensor_parallel_size} x {devices}"
    return f"{job.sizes.name} in {job.settings.dtype} on {devices}"


def _engine(job: _Job) -> dict[str, object]:
    held, origin = kv_bytes(job.settings.device, job.sizes.weights * job.dtype.itemsize)
    per_token = job.sizes.kv_elements_per_token * job.kv_dtype.itemsize
    engine: dict[str, object] = {}
    if held >= per_token * BLOCK_SIZE:
        blocks = held // (per_token * BLOCK_SIZE)
        engine["kv"] = {"blocks": blocks, "block_size": BLOCK_SIZE, "origin": origin}
    if job.sizes.max_model_len:
        engine["max_model_len"] = job.sizes.max_model_len
    return engine
