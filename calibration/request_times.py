"""`RequestTimes`: what a client knows of each request: when it was sent, its tokens, TTFT and E2E.

A CSV or JSON lines file, gzipped or not, one request a row. Times say their unit in their name:
`send_s`, `arrival_us`, `ttft_ms`, `e2el_ms` …
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError, nearest
from simulator.trace import Trace
from simulator.units import NS_PER_MS

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
SENT = ("send", "sent", "arrival", "start")
PLANNED = ("arrival", "start", "send", "sent")
"""Names of the time at which a request was sent, and, behind a cap, meant to be sent."""
TTFT = ("ttft", "first_token_latency")
E2E = ("e2el", "e2e", "latency")
PROMPT = ("prompt_tokens", "input_tokens", "prompt_len", "input_len")
OUTPUT = ("output_tokens", "completion_tokens", "output_len")
FEWEST = 30


@dataclass(frozen=True, slots=True, eq=False)
class RequestTimes:
    """Columns of one log, shape (n,), in order of arrival; the first request arrives at 0."""

    name: str
    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    ttft_ms: Floats
    e2e_ms: Floats

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @property
    def tpot_ms(self) -> Floats:
        """Mean gap between tokens; 0 for one token."""
        return (self.e2e_ms - self.ttft_ms) / np.maximum(self.output_tokens - 1, 1)

    @property
    def trace(self) -> Trace:
        """The same requests, to be served."""
        return Trace(
            arrival_ns=self.arrival_ns,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
        )

    @property
    def most_in_flight(self) -> int:
        """Requests sent and not yet answered, at most."""
        ends = np.sort(self.arrival_ns + (self.e2e_ms * NS_PER_MS).astype(np.int64))
        sent = np.arange(1, len(self) + 1)
        return int((sent - np.searchsorted(ends, self.arrival_ns, side="right")).max())


def read_request_times(path: str | Path, *, planned: bool = False) -> RequestTimes:
    """Read a log. planned: of several times take the planned arrival, not the actual send.

    Raises WorkloadError naming the file, and the column or row that is wrong.
    """
    path = Path(path)
    table = _table(path)
    if len(table) < FEWEST:
        raise WorkloadError(f"{path}: {len(table)} requests; a fit needs at least {FEWEST}")
    sent_ns = _time(path, table, PLANNED if planned else SENT, lowest=-np.inf)
    order = np.argsort(sent_ns, kind="stable")
    arrival_ns = np.rint(sent_ns - sent_ns.min()).astype(np.int64)
    ttft_ns, e2e_ns = _time(path, table, TTFT), _time(path, table, E2E)
    output = _tokens(path, table, OUTPUT)
    early = np.flatnonzero(e2e_ns < ttft_ns)
    if len(early):
        raise WorkloadError(f"{path}: request {int(early[0]) + 1}: E2E is below TTFT")
    return RequestTimes(
        name=path.name,
        arrival_ns=arrival_ns[order],
        prompt_tokens=_tokens(path, table, PROMPT)[order],
        output_tokens=output[order],
        ttft_ms=ttft_ns[order] / NS_PER_MS,
        e2e_ms=e2e_ns[order] / NS_PER_MS,
    )


def _table(path: Path) -> pd.DataFrame:
    import pandas as pd

    plain = path.name.removesuffix(".gz")
    try:
        if plain.endswith((".jsonl", ".json", ".ndjson")):
            return pd.read_json(path, lines=True)
        return pd.read_csv(path)
    except FileNotFoundError:
        raise WorkloadError(f"{path}: no such file") from None
    except (OSError, EOFError, ValueError) as error:
        raise WorkloadError(f"{path}: neither CSV nor JSON lines: {error}") from None


def _time(path: Path, table: pd.DataFrame, names: tuple[str, ...], lowest: float = 0.0) -> Floats:
    """A column of nanoseconds."""
    for name in names:
        for unit, scale in UNITS.items():
            if f"{name}_{unit}" in table.columns:
                return _numbers(path, table, f"{name}_{unit}", lowest) * scale
    wanted = f"{names[0]}_s, {names[0]}_ms or {names[0]}_us"
    found = [str(column) for column in table.columns]
    raise WorkloadError(
        f"{path}: no column {wanted}{nearest(f'{names[0]}_ms', found)} (found: {', '.join(found)})"
    )


def _tokens(path: Path, table: pd.DataFrame, names: tuple[str, ...]) -> Ints:
    for name in names:
        if name in table.columns:
            return _numbers(path, table, name, lowest=1.0).astype(np.int64)
    found = [str(column) for column in table.columns]
    raise WorkloadError(
        f"{path}: no column {' or '.join(names[:2])}{nearest(names[0], found)} "
        f"(found: {', '.join(found)})"
    )


def _numbers(path: Path, table: pd.DataFrame, name: str, lowest: float) -> Floats:
    import pandas as pd

    values = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < lowest))
    if len(bad):
        row = int(bad[0])
        raise WorkloadError(
            f"{path}: request {row + 1}: {name} is {str(table[name].iloc[row])!r}: must be a "
            f"number{'' if lowest == -np.inf else f', at least {lowest:g}'}; drop failed requests"
        )
    return values
