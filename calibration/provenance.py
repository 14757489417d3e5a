"""Where a calibrated table's numbers come from."""

from __future__ import annotations

import datetime
import importlib
import platform

import numpy as np
import torch

from .device import clocks_of, device_title
from .experts import has_grouped_gemm
from .kernels import Decoder
from .settings import Settings
from .trial import DISTURBED, spread_of, totals_ns, undisturbed
from .trials import TrialLog


def provenance_of(
    settings: Settings,
    decoder: Decoder,
    log: TrialLog,
    *,
    command: str,
    clock: str,
    smoothing: str,
    all_reduce: str | None = None,
    not_captured: str | None = None,
) -> dict[str, object]:
    """A measured table's provenance: device, versions, threads, clocks, date, command, samples."""
    laps = [trial for _, trials in log for trial in trials.values()]
    taken = sum(len(trial.samples_ns) for trial in laps)
    good = [trial for _, trials in log for trial in undisturbed(trials).values()]
    kept = sum(len(trial.samples_ns) for trial in good)
    described: dict[str, object] = {
        "origin": "measured: the kernels of a decoder, timed by calibration",
        "device": device_title(settings.device),
        "tensor_parallel": settings.tensor_parallel_size,
        "dtype": settings.dtype,
        "kv_cache_dtype": settings.kv_cache_dtype,
        "model": decoder.sizes.name,
        "shapes": decoder.sizes.shapes,
        "engine": _engine(settings, not_captured),
        "attention_backend": _backend(decoder),
        "software": _software(decoder),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": command or "calibration.calibrate",
        "source": "timed on the device named here",
        "licence": "none: your own measurement",
        "samples": sum(len(totals_ns(trials)) for _, trials in log),
        "dropped": f"{taken - kept} of {taken} kernel times, over {DISTURBED:g} times the fastest "
        "tenth of their shape: something else held the machine; from held-out steps too",
        "outliers": f"{sum(trial.outliers for trial in good)} of the {kept} times kept "
        "lie over 3 inter-quartile ranges beyond a quartile; inter-quartile range of a shape: "
        f"median {np.median([spread_of(undisturbed(trials)) for _, trials in log]):.1%}",
        "smoothing": smoothing,
    }
    if all_reduce is not None:
        described["all_reduce"] = all_reduce
    described["clock"] = clock
    if not settings.is_cuda:
        described["threads"] = torch.get_num_threads()
    return {**described, "note": "; ".join(_notes(settings, decoder, log))}


def _engine(settings: Settings, not_captured: str | None) -> str:
    if not settings.is_cuda:
        return "torch eager"
    if not_captured is not None:
        return f"torch eager; decode steps could not be captured: {not_captured}"
    return "torch eager, decode steps as CUDA graphs"


def _backend(decoder: Decoder) -> str:
    refused = "; ".join(decoder.refused_backends)
    return decoder.backend.title + (f" (not {refused})" if refused else "")


def _software(decoder: Decoder) -> dict[str, str]:
    software = {"torch": str(torch.__version__), "numpy": np.__version__}
    software["python"] = platform.python_version()
    if torch.version.cuda:
        software["cuda"] = str(torch.version.cuda)
    module = decoder.backend.module
    if module != "torch":
        software[module] = str(getattr(importlib.import_module(module), "__version__", "unknown"))
    return software


def _notes(settings: Settings, decoder: Decoder, log: TrialLog) -> list[str]:
    notes = ["random weights, every kernel timed where it stands in the step"]
    if decoder.sizes.experts:
        how = "grouped GEMMs" if has_grouped_gemm(decoder.device, decoder.dtype) else "one by one"
        notes.append(
            f"{decoder.sizes.experts} experts, {decoder.sizes.experts_per_token} a token, {how}; "
            "a random router, which spreads tokens evenly"
        )
    if decoder.kv_dtype != decoder.dtype:
        notes.append(f"KV cache quantised to {decoder.kv_dtype}".replace("torch.", ""))
    if clocks := clocks_of(settings.device):
        notes.append(clocks)
    return notes + [f"skipped {list(shape)}: {reason}" for shape, reason in log.skipped.items()]
