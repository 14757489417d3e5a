"""`StepLog`: the forward passes of a real engine, one row each, as columns.

A CSV with a header, plain or gzipped, in one of two vocabularies: that of the step logs which
NVIDIA's AIConfigurator collects from vLLM's scheduler ("forward pass metrics"), or Runway's own
(`OWN_COLUMNS`), for logs of other engines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.errors import WorkloadError, nearest

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

COLUMNS = {
    "counter": "counter_id",
    "prefill_tokens": "sum_prefill_tokens",
    "prefill_requests": "num_prefill_requests",
    "prefill_past": "sum_prefill_kv_tokens",
    "prompt_variance": "var_prefill_length",
    "decode_seqs": "num_decode_requests",
    "decode_context": "sum_decode_kv_tokens",
    "context_variance": "var_decode_kv_tokens",
    "measured_ms": "latency_ms",
}


OWN_COLUMNS = {
    "counter": "step",
    "prefill_tokens": "prefill_tokens",
    "prefill_requests": "prefill_seqs",
    "prefill_past": "prefill_past_tokens",
    "prompt_variance": "prompt_variance",
    "decode_seqs": "decode_seqs",
    "decode_context": "decode_context_tokens",
    "context_variance": "decode_context_variance",
    "measured_ms": "step_ms",
}
NEEDED = ("prefill_tokens", "decode_seqs", "decode_context", "measured_ms")
"""Of Runway's own columns. Without `step`, no row follows another; without `prefill_seqs`, prompts
come one at a time; all others are 0."""
DIRECT = {"token_pairs": "token_pairs", "longest_context": "longest_context"}
"""Runway's own columns that are taken as they are, instead of being worked out."""
SEGMENTS = ("workload_segment", "segment")


@dataclass(frozen=True, slots=True, eq=False)
class StepLog:
    """Columns of float64, shape (steps,), in the order of the file.

    segment: the part of the run, by name ("" if the file has no such column).
    counter: step number; consecutive steps differ by 1.
    prefill_tokens, prefill_requests: prompt tokens computed, and for how many requests.
    prefill_past: tokens of those requests that were in the KV cache before the step.
    prompt_variance: population variance of their whole prompt lengths, tokens squared.
    decode_seqs: requests that produce one token.
    decode_context: their tokens in the KV cache before the step, summed: the token that the
        step feeds in is not counted, as in `StepShape.decode_context_tokens`.
    context_variance: population variance of these contexts.
    measured_ms: wall time of the step.
    token_pairs, longest_context: where the log has them (`Quantities`); else None.
    """

    segment: NDArray[np.str_]
    counter: Floats
    prefill_tokens: Floats
    prefill_requests: Floats
    prefill_past: Floats
    prompt_variance: Floats
    decode_seqs: Floats
    decode_context: Floats
    context_variance: Floats
    measured_ms: Floats
    token_pairs: Floats | None = None
    longest_context: Floats | None = None

    def __len__(self) -> int:
        return len(self.counter)

    def within(self, segment: str) -> Bools:
        """True for the steps of a part of the run; for all, if it has no name."""
        if not segment:
            return np.ones(len(self), dtype=np.bool_)
        result: Bools = self.segment == segment
        return result

    @property
    def follows(self) -> Bools:
        """True where a step comes right after the row before it; shape (steps,)."""
        result = np.zeros(len(self), dtype=np.bool_)
        same_part = self.segment[1:] == self.segment[:-1]
        result[1:] = same_part & (np.diff(self.counter) == 1)
        return result


def read_step_log(path: str | Path) -> StepLog:
    """Read a step log: a CSV, or the JSON of an engine's run (`engine_log`).

    Raises WorkloadError naming the file and what is wrong with it.
    """
    path = Path(path)
    if path.suffix == ".json":
        from .engine_log import read_engine_log, step_log_of

        return step_log_of(read_engine_log(path))
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except FileNotFoundError:
        raise WorkloadError(f"{path}: no such file") from None
    except (OSError, EOFError, ValueError) as error:
        raise WorkloadError(f"{path}: not a step log (CSV or CSV.gz): {error}") from None
    found = [str(column) for column in frame.columns]
    is_own = OWN_COLUMNS["measured_ms"] in found
    columns = _own(path, frame) if is_own else _logged(path, frame)
    if not len(frame):
        raise WorkloadError(f"{path}: no steps, only a header")
    labels = [name for name in SEGMENTS if name in found]
    parts = list(frame[labels[0]].astype(str)) if labels else [""] * len(frame)
    return StepLog(segment=np.array(parts, dtype=np.str_), **columns)


def _logged(path: Path, frame: pd.DataFrame) -> dict[str, Floats]:
    """The columns of AIConfigurator's logs, all of which are needed."""
    for column in COLUMNS.values():
        _require(path, frame, column)
    return {name: _numbers(path, frame[column]) for name, column in COLUMNS.items()}


def _own(path: Path, frame: pd.DataFrame) -> dict[str, Floats]:
    """Runway's own columns, and what stands for those that are absent."""
    for name in NEEDED:
        _require(path, frame, OWN_COLUMNS[name])
    columns = {
        name: _numbers(path, frame[column])
        for name, column in {**OWN_COLUMNS, **DIRECT}.items()
        if column in frame.columns
    }
    rows = np.arange(len(frame), dtype=np.float64)
    defaults = {
        "counter": 2 * rows,
        "prefill_requests": (columns["prefill_tokens"] > 0).astype(np.float64),
        **dict.fromkeys(("prefill_past", "prompt_variance", "context_variance"), 0 * rows),
    }
    return {**defaults, **columns}


def _require(path: Path, frame: pd.DataFrame, column: str) -> None:
    found = [str(name) for name in frame.columns]
    if column not in found:
        raise WorkloadError(
            f"{path}: column {column} missing{nearest(column, found)} (found: {found})"
        )


def _numbers(path: Path, column: pd.Series[float]) -> Floats:
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    positive = column.name in (COLUMNS["measured_ms"], OWN_COLUMNS["measured_ms"])
    enough = values > 0 if positive else values >= 0
    bad = np.flatnonzero(~(np.isfinite(values) & enough))
    if len(bad):
        row = int(bad[0])
        raise WorkloadError(
            f"{path}:{row + 2}: {column.name} is {str(column.iloc[row])!r}: "
            f"must be a number, {'above' if positive else 'at least'} 0"
        )
    return values
