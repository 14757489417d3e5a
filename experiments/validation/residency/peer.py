"""What BLIS, a published simulator, predicted for the same runs (its authors' own replay)."""

from __future__ import annotations

from pathlib import Path

from simulator.errors import ConfigError

NAME = "blis_replay_vs_real.csv"
COLUMNS = ("run", "n", "real_ttft_p50_us", "blis_ttft_p50_us")


def read_peer(folder: Path) -> dict[str, float]:
    """Run -> relative error of its TTFT p50, the mean over requests of its tenants' errors.

    Raises:
        ConfigError: the file is there and lacks a column.
    """
    import pandas as pd

    path = folder / NAME
    if not path.is_file():
        return {}
    table = pd.read_csv(path)
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ConfigError(f"{path}: lacks the columns {', '.join(missing)}")
    table["off"] = (table["blis_ttft_p50_us"] / table["real_ttft_p50_us"] - 1) * table["n"]
    sums = table.groupby("run")[["off", "n"]].sum()
    return {str(run): float(off / n) for run, off, n in sums.itertuples()}
