"""Go on measuring a table between served runs, so that both see the same minutes of a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from calibration.calibrate import calibrate
from calibration.errors import CalibrationError
from calibration.settings import Settings

SAME = ("dtype", "kv_cache_dtype", "attention_backend", "seed")
"""Settings as the raw samples name them; threads and clock are resumed."""


def measure_more(
    table: Path, model: str, provenance: Mapping[str, object], *, device: str, seconds: float
) -> None:
    """Time the table's steps for so long again; its samples become more, the file is replaced.

    Raises CalibrationError if the raw samples that `runway calibrate` left beside the table are
    gone.
    """
    partial = table.with_name(f"{table.name}.partial")
    if not partial.is_file():
        raise CalibrationError(
            f"{partial}: no such file, and measuring on needs its raw samples: put it beside the "
            "table, or leave out --calibrate-between"
        )
    with partial.open(encoding="utf-8") as file:
        identity = json.loads(file.readline())
    tokens, seqs, context = identity["limits"]
    calibrate(
        Settings(
            model=model,
            output=table,
            device=device,
            **{key: identity[key] for key in SAME},
            cudagraph_capture_sizes=tuple(identity["captured"]) or None,
            time_budget_s=seconds,
            max_num_batched_tokens=tokens,
            max_num_seqs=seqs,
            max_model_len=context,
            name=json.loads(table.read_text(encoding="utf-8"))["name"],
            resume=True,
        ),
        command=f"{provenance.get('command')}, and on between served runs",
    )
