"""`timeline.png` of a sweep: the same long prompt under several settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from .style import level_label, value_label
from .sweep_table import Row, SweepTable
from .timeline import Lane, save_timeline

_ORDER = ("scheduler", "chunk_size", "max_num_batched_tokens")
_OUTCOME = ("ttft_ms_mean", "tpot_ms_mean", "e2el_ms_mean", "output_throughput")


def draw_moment(table: SweepTable, saved: Path, path: Path) -> Path | None:
    """Draw `timelines.parquet`; None when the sweep found no such moment."""
    if not saved.is_file():
        return None
    frame = pd.read_parquet(saved)
    first = frame.iloc[0]
    lanes = [
        Lane(
            lane_name(table, int(steps["point"].iloc[0])),
            steps,
            float(steps["first_token_ms"].iloc[0]),
            _note(steps),
        )
        for _, steps in frame.groupby("point", sort=False)
    ]
    prompt, at_s = value_label(int(first["prompt_tokens"])), float(first["arrival_s"])
    return save_timeline(
        path,
        lanes,
        title=f"A {prompt}-token prompt arrives on running streams",
        subtitle=f"Every box is one step, as wide as it lasts. {at_s:,.1f} s into {table.setting}.",
        start_ms=float(first["window_start_ms"]),
        end_ms=float(first["window_end_ms"]),
    )


def lane_name(table: SweepTable, index: int) -> str:
    """The swept settings of a point, less those that make no difference to its scheduler."""
    row = table.frame.loc[index].to_dict()
    fields = [field for field in _ORDER if field in table.swept]
    fields += [field for field in table.swept if field not in fields]
    told = [field for field in fields if field == "scheduler" or _matters(table, row, field)]
    return ", ".join(level_label(field, row[field]) for field in told) or "the run"


def longest_pause_ms(steps: pd.DataFrame) -> float | None:
    """Longest time between two steps with decodes while some stream held a seat and got nothing.

    None if no stream waited.
    """
    ends = (steps["start_ms"] + steps["duration_ms"]).to_numpy(np.float64)
    decoded = steps["decode_seqs"].to_numpy() > 0
    held_up = ~decoded & (steps["running"] > steps["prefill_seqs"]).to_numpy()
    at = np.flatnonzero(decoded)
    pauses = [
        ends[right] - ends[left]
        for left, right in zip(at, at[1:], strict=False)
        if right == left + 1 or held_up[left + 1 : right].all()
    ]
    return float(max(pauses)) if pauses else None


def _matters(table: SweepTable, row: Row, field: str) -> bool:
    others: Sequence[str] = [name for name in table.swept if name != field]
    alike = table.where({name: row[name] for name in others}, table.measured)
    return any(alike[column].nunique() > 1 for column in _OUTCOME)


def _note(steps: pd.DataFrame) -> str:
    words = [f"first token after {float(steps['first_token_ms'].iloc[0]):,.0f} ms"]
    pause_ms = longest_pause_ms(steps)
    if pause_ms is not None:
        words.append(f"longest wait of a stream {pause_ms:,.0f} ms")
    return ", ".join(words)
