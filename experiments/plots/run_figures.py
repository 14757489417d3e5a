"""Figures of one run, from its saved files: latencies, load over time, its busiest moment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from simulator.errors import ConfigError

Summary = Mapping[str, Any]
"""`summary.json`. Any: JSON values."""

STEPS_IN_SIGHT = 60


def draw_run(folder: Path, figures: Path) -> list[Path]:
    """`latencies.png`, `load.png` and, from `steps.parquet` if it is there, `timeline.png`.

    Raises:
        ConfigError: the folder holds no run.
    """
    if not (folder / "summary.json").is_file() or not (folder / "requests.parquet").is_file():
        raise ConfigError(
            f"{folder}: no summary.json with requests.parquet here, so this is not a run: "
            "run `runway simulate ... --out` with this folder first"
        )
    summary: Summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    requests = pd.read_parquet(folder / "requests.parquet")
    saved = folder / "steps.parquet"
    steps = pd.read_parquet(saved) if saved.is_file() else None
    drawn = [
        _draw_latencies(summary, requests, figures / "latencies.png"),
        _draw_load(summary, requests, steps, figures / "load.png"),
        None if steps is None else _draw_busiest(summary, steps, figures / "timeline.png"),
    ]
    return [path for path in drawn if path is not None]
