"""Where a calibrated table's numbers come from."""

from __future__ import annotations

import datetime
import platform

import numpy as np
import torch

from .attention import attention_library
from .device import DTYPES, clocks_of, device_title
from .sizes import DecoderSizes
from .trials import TrialLog


def provenance_of(
    device: str, dtype: str, sizes: DecoderSizes, log: TrialLog, command: str
) -> dict[str, object]:
    """A measured table's provenance: device, versions, threads, clocks, date, command, samples."""
    library = attention_library(torch.device(device), DTYPES[dtype])
    software = {"torch": str(torch.__version__), "numpy": np.__version__}
    software["python"] = platform.python_version()
    if torch.version.cuda:
        software["cuda"] = str(torch.version.cuda)
    if library != "torch":
        from importlib.metadata import version

        software[library] = version(library)
    samples = [trial for _, trials in log for trial in trials.values()]
    notes = [
        f"attention by {library if library != 'torch' else 'torch scaled_dot_product_attention'} "
        "over a padded KV cache",
        "random weights, every kernel timed where it stands in the step",
        f"{sum(t.outliers for t in samples)} outliers among the samples, kept",
        f"relative inter-quartile range: median {np.median([t.spread for t in samples]):.1%}",
    ]
    if clocks := clocks_of(device):
        notes.append(clocks)
    notes += [f"skipped {list(shape)}: {reason}" for shape, reason in log.skipped.items()]
    return {
        "origin": "measured: the kernels of a decoder, timed by calibration",
        "device": device_title(device),
        "tensor_parallel": 1,
        "dtype": dtype,
        "model": sizes.name,
        "engine": "torch eager" + (", decode steps as CUDA graphs" if "cuda" in device else ""),
        "software": software,
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": command or "calibration.calibrate",
        "source": "timed on the device named here",
        "licence": "none: your own measurement",
        "samples": sum(len(trial.samples_ns) for trial in samples),
        "note": "; ".join(notes),
    }
