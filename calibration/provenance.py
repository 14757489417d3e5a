"""Where a calibrated table's numbers come from."""

from __future__ import annotations

import datetime
import platform

import numpy as np
import torch

from .attention import attention_library
from .device import DTYPES, clocks_of, device_title
from .sizes import DecoderSizes
from .trial import DISTURBED, Trial, totals_ns, undisturbed
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
    samples = sum(len(totals_ns(trials)) for _, trials in log)
    kept = sum(len(totals_ns(undisturbed(trials))) for _, trials in log)
    totals = [Trial(tuple(totals_ns(undisturbed(trials)))) for _, trials in log]
    notes = [
        f"attention by {library if library != 'torch' else 'torch scaled_dot_product_attention'} "
        "over a padded KV cache",
        "random weights, every kernel timed where it stands in the step",
        "inter-quartile range of a shape's kept samples: median "
        f"{np.median([trial.spread for trial in totals]):.1%}, "
        f"{sum(trial.outliers for trial in totals)} outliers among them",
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
        "samples": samples,
        "dropped": f"{samples - kept} samples over {DISTURBED:g} times the fastest tenth of their "
        "shape: something else held the machine; from held-out steps too",
        "note": "; ".join(notes),
    }
