"""Go on measuring a table between served runs, so that both see the same minutes of a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from calibration.calibrate import Settings, calibrate
from calibration.errors import CalibrationError


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
    threads = provenance.get("threads")
    calibrate(
        Settings(
            model=model,
            output=table,
            device=device,
            dtype=str(identity["dtype"]),
            time_budget_s=seconds,
            max_num_batched_tokens=tokens,
            max_num_seqs=seqs,
            max_model_len=context,
            threads=threads if isinstance(threads, int) else None,
            clock=str(identity["clock"]),
            seed=identity["seed"],
            name=json.loads(table.read_text(encoding="utf-8"))["name"],
            resume=True,
        ),
        command=f"{provenance.get('command')}, and on between served runs",
    )
