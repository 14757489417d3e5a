"""A run as its folder holds it, for figures, reports, traces and comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import ConfigError

from .caption import caption_parts

if TYPE_CHECKING:
    import pandas as pd

NEEDED = ("summary.json", "requests.parquet")


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
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(
            f"{folder / 'summary.json'}: not JSON ({error}): simulate again"
        ) from None
    requests = _table(folder / "requests.parquet")
    assert requests is not None
    more = (_table(folder / f"{name}.parquet") for name in ("steps", "tokens", "preemptions"))
    return SavedRun(folder, summary, requests, *more)


def _table(path: Path) -> pd.DataFrame | None:
    import pandas as pd

    if not path.is_file():
        return None
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}): simulate again") from None
