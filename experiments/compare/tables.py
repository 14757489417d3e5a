"""Our own request format: a row a request, columns named as in requests.parquet.

Any of `ttft_ms`, `tpot_ms`, `e2el_ms` (or `e2e_ms`) and `queue_ms`, or the times `arrival_s`,
`first_token_s` and `last_token_s` themselves; `_s`, `_us` and `_ns` are other units.
`prompt_tokens`, `output_tokens`, `id`, and `state` or `status`: requests that are not `finished`
(`ok`, `success`) have no latency. As CSV, JSON lines or Parquet.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import ConfigError

from .log import TOKENS, Floats, Log, completed

if TYPE_CHECKING:
    import pandas as pd

_TIMES = ("ttft", "tpot", "e2el", "queue", "norm_latency")
_INSTANTS = ("arrival", "first_token", "last_token")
_MS = {"ms": 1.0, "s": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}
_NAMED = ("ttft", "e2el", "e2e", "first_token")
"""A row with one of these is a request."""

_GOOD = ("finished", "ok", "success", "completed")
_OTHER_NAMES = {
    "input_tokens": "prompt_tokens",
    "request_id": "id",
    "status": "state",
    **{f"e2e_{unit}": f"e2el_{unit}" for unit in _MS},
}


def read_parquet(path: Path) -> Log:
    """Read a Parquet file.

    Raises:
        ConfigError: it is none, or has no latency in it.
    """
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as Parquet ({error})") from None
    log = _log(path, frame)
    if log is None:
        raise ConfigError(
            f"{path}: no column ttft_ms or e2el_ms in it, only {', '.join(map(str, frame))}"
        )
    return log


def read_csv(path: Path, text: str) -> Log | None:
    """Read CSV text; None if it has no latency in it."""
    import pandas as pd

    try:
        return _log(path, pd.read_csv(io.StringIO(text)))
    except ValueError:
        return None


def are_rows(content: Any) -> bool:  # Any: parsed JSON
    """Lines of JSON with a latency in each, or one such line."""
    rows = content if isinstance(content, list) else [content]
    return len(rows) > 0 and all(
        isinstance(row, dict) and any(f"{n}_{u}" in row for n in _NAMED for u in _MS)
        for row in rows
    )


def read_rows(path: Path, content: Any) -> Log:  # Any: parsed JSON
    """Read JSON lines that `are_rows`."""
    import pandas as pd

    log = _log(path, pd.DataFrame(content if isinstance(content, list) else [content]))
    assert log is not None
    return log


def _log(path: Path, frame: pd.DataFrame) -> Log | None:
    frame = frame.rename(columns={k: v for k, v in _OTHER_NAMES.items() if v not in frame})
    times = {name: _time(path, frame, name) for name in (*_TIMES, *_INSTANTS)}
    columns = {f"{name}_ms": times[name] for name in _TIMES if times[name] is not None}
    arrival, first, last = (times[name] for name in _INSTANTS)
    for name, instant in (("ttft_ms", first), ("e2el_ms", last)):
        if name not in columns and arrival is not None and instant is not None:
            columns[name] = instant - arrival
    if not columns.keys() & {"ttft_ms", "e2el_ms"}:
        return None
    known = {name: held for name, held in columns.items() if held is not None}
    if "state" in frame:
        finished = frame["state"].astype(str).str.lower().isin(_GOOD).to_numpy()
        known = {name: np.where(finished, held, np.nan) for name, held in known.items()}
    known |= {name: _numbers(path, frame, name) for name in TOKENS if name in frame}
    if arrival is not None:
        known["arrival_s"] = arrival / _MS["s"]
    ids = tuple(map(str, frame["id"])) if "id" in frame else None
    ours = "source_row" in frame  # only a simulation knows the row of its trace
    return Log(path.name, "requests", not ours, requests=completed(known), ids=ids)


def _time(path: Path, frame: pd.DataFrame, name: str) -> Floats | None:
    """A time in ms from whatever unit it is in; None if it is not there."""
    for unit, scale in _MS.items():
        if f"{name}_{unit}" in frame:
            return _numbers(path, frame, f"{name}_{unit}") * scale
    return None


def _numbers(path: Path, frame: pd.DataFrame, name: str) -> Floats:
    import pandas as pd

    try:
        return pd.to_numeric(frame[name]).to_numpy(np.float64, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: column {name}: {error}") from None
