"""A run as its folder holds it, for figures, reports, traces and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import ConfigError

from .caption import caption_parts
from .saved_files import SIMULATE, saved_json, saved_table

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("summary.json", "requests.parquet")
IN_SUMMARY = (
    *("provenance.scheduler.name", "provenance.scheduler.parameters", "provenance.workload"),
    *("provenance.kv_cache.blocks", "provenance.notes", "provenance.runway_version"),
    *("cost_model.name", "cost_model.stamp", "run.requests", "config", "window.submitted"),
    *("submitted", "saturated", "slo", "ttft_ms", "tpot_ms", "itl_ms", "e2el_ms"),
)
"""What a summary of any run holds."""

IN_REQUESTS = ("id", "state", "arrival_s", "prompt_tokens", "ttft_ms", "e2el_ms", "queue_ms")


@dataclass(frozen=True, slots=True, eq=False)
class SavedRun:
    """What `runway simulate --out` wrote.

    summary: summary.json. requests: a row per request. steps, tokens, preemptions: those of
    `--steps`, None without it.
    """

    folder: Path
    summary: Mapping[str, Any]  # Any: JSON values
    requests: pd.DataFrame
    steps: pd.DataFrame | None
    tokens: pd.DataFrame | None
    preemptions: pd.DataFrame | None

    @property
    def policy(self) -> str:
        """The scheduler's name."""
        return str(self.summary["provenance"]["scheduler"]["name"])

    @property
    def setting(self) -> str:
        """What was simulated, in one line."""
        return ", ".join([self.policy, *caption_parts(self.summary)])


def load_run(folder: Path) -> SavedRun:
    """Read a run's folder.

    Raises:
        ConfigError: the folder holds no run, or a file of it is damaged.
    """
    if not all((folder / name).is_file() for name in NEEDED):
        raise ConfigError(
            f"{folder}: no summary.json with requests.parquet here, so this is not a run: "
            "run `runway simulate ... --out` with this folder first"
        )
    summary = saved_json(folder / "summary.json", needed=IN_SUMMARY, remedy=SIMULATE)
    requests = saved_table(folder / "requests.parquet", needed=IN_REQUESTS, remedy=SIMULATE)
    more = (_table(folder / f"{name}.parquet") for name in ("steps", "tokens", "preemptions"))
    return SavedRun(folder, summary, requests, *more)


def _table(path: Path) -> pd.DataFrame | None:
    return saved_table(path, remedy=SIMULATE) if path.is_file() else None
