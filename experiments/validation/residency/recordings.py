"""The files of a residency folder: runs by request, and steps derived from token times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calibration.seen_steps import SeenSteps
from experiments.validation.report import Samples
from simulator.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RUN_COLUMNS = (
    *("arrival_us", "send_us", "input_tokens", "output_tokens", "ttft_us", "e2e_us", "status"),
)
STEP_COLUMNS = (
    *("n_first_tokens", "first_token_prompt_tokens", "n_decode", "sum_decode_context_tokens"),
    *("interval_us", "interval_is_busy", "has_duplicate_request"),
)
STOCK = "vanilla"
HOOKED = "patched"
"""The image with a hook that counts KV blocks in every step; runs that do not say are of this."""


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One run; columns in order of planned arrival, all of requests that were answered.

    arrival_us: planned. load: mean requests per second, of the plan. image: `STOCK` or `HOOKED`.
    steps: as its client saw them, where token times were recorded.
    """

    run: str
    image: str
    arrival_us: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    ttft_ms: Floats
    e2e_ms: Floats
    load: float
    makespan_s: float
    steps: SeenSteps | None

    @property
    def tpot_ms(self) -> Floats:
        """Mean gap between tokens of each request."""
        return (self.e2e_ms - self.ttft_ms) / np.maximum(self.output_tokens - 1, 1)

    def samples(self, quantity: str, measured: Floats, predicted: Floats) -> Samples:
        """Measured beside predicted."""
        return Samples(self.run, quantity, measured, predicted, self.load)


def runs_in(folder: Path) -> list[Path]:
    """The runs of a folder, by name."""
    return sorted((folder / "runs").glob("*.csv.gz"))


def recordings_in(folder: Path) -> list[Recording]:
    """All runs of a folder.

    Raises:
        ConfigError: a file lacks a column or holds no answered request.
    """
    return [_recording(path, folder) for path in runs_in(folder)]


def _recording(path: Path, folder: Path) -> Recording:
    table = _read(path, RUN_COLUMNS)
    table = table[table["status"] == "ok"].sort_values("arrival_us", kind="stable")
    if not len(table):
        raise ConfigError(f"{path}: no request was answered")
    run = path.name.removesuffix(".csv.gz")
    arrival_us = table["arrival_us"].to_numpy(np.int64)
    last_us = max(int(arrival_us[-1]), 1)
    derived = folder / "derived_steps" / path.name
    return Recording(
        run=run,
        image=STOCK if run.endswith(STOCK) else HOOKED,
        arrival_us=arrival_us,
        prompt_tokens=table["input_tokens"].to_numpy(np.int64),
        output_tokens=table["output_tokens"].to_numpy(np.int64),
        ttft_ms=table["ttft_us"].to_numpy(np.float64) / 1000,
        e2e_ms=table["e2e_us"].to_numpy(np.float64) / 1000,
        load=len(table) / last_us * 1e6,
        makespan_s=float((table["send_us"] + table["e2e_us"]).max()) / 1e6,
        steps=_steps(derived) if derived.is_file() else None,
    )


def _steps(path: Path) -> SeenSteps:
    table = _read(path, STEP_COLUMNS)

    def column(name: str) -> Floats:
        return table[name].fillna(0).to_numpy(np.float64)

    return SeenSteps(
        interval_ms=column("interval_us") / 1000,
        is_whole=(column("interval_is_busy") == 1) & (column("has_duplicate_request") == 0),
        prompts=column("n_first_tokens"),
        prompt_tokens=column("first_token_prompt_tokens"),
        decode_seqs=column("n_decode"),
        decode_context=column("sum_decode_context_tokens"),
    )


def _read(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except (OSError, EOFError, ValueError) as error:
        raise ConfigError(f"{path}: not a CSV.gz: {error}") from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ConfigError(f"{path}: lacks the columns {', '.join(missing)}")
    return table
