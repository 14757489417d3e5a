"""`timeline.png` of a sweep: the same long prompt under several settings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from .style import level_label, value_label
from .sweep_table import Row, SweepTable
from .timeline import Lane, save_timeline

_ORDER = ("scheduler", "chunk_size", "max_num_batched_tokens")


def draw_moment(table: SweepTable, saved: Path, path: Path) -> Path | None:
    """Draw `timelines.parquet`; None when the sweep found no such moment."""
    if not saved.is_file():
        return None
    frame = pd.read_parquet(saved)
    first = frame.iloc[0]
    points = [int(point) for point in frame["point"].drop_duplicates()]
    names, common = lane_names(table, points)
    lanes = []
    for point, name in zip(points, names, strict=True):
        steps = frame[frame["point"] == point]
        lanes.append(Lane(name, steps, float(steps["first_token_ms"].iloc[0]), _note(steps)))
    prompt, at_s = value_label(int(first["prompt_tokens"])), float(first["arrival_s"])
    where = ", ".join(filter(None, [table.setting, common]))
    return save_timeline(
        path,
        lanes,
        title=f"A {prompt}-token prompt arrives on running streams",
        subtitle=f"{where}, after {at_s:,.1f} s. Every box is one step, as wide as it lasts.",
        start_ms=float(first["window_start_ms"]),
        end_ms=float(first["window_end_ms"]),
    )


def lane_names(table: SweepTable, points: Sequence[int]) -> tuple[list[str], str]:
    """What tells the points apart, one name each, and what they have in common.

    A setting that makes no difference to a point is not in its name.
    """
    rows = [table.frame.loc[point].to_dict() for point in points]
    fields = [field for field in _ORDER if field in table.swept]
    fields += [field for field in table.swept if field not in fields]
    apart = [field for field in fields if len({row[field] for row in rows}) > 1]
    names = [
        ", ".join(level_label(field, row[field]) for field in apart if _is_told(table, row, field))
        for row in rows
    ]
    shared = [level_label(field, rows[0][field]) for field in fields if field not in apart]
    return names, ", ".join(shared)


def longest_pause_ms(steps: pd.DataFrame) -> tuple[float, bool] | None:
    """Longest time between two tokens of the streams, and whether it goes on beyond the last step.

    Counts only while some sequence held a seat and got nothing; None if no stream ran.
    """
    ends = (steps["start_ms"] + steps["duration_ms"]).to_numpy(np.float64)
    decoded = steps["decode_seqs"].to_numpy() > 0
    held_up = ~decoded & (steps["running"] > steps["prefill_seqs"]).to_numpy()
    at = np.flatnonzero(decoded)
    pauses = [
        (float(ends[right] - ends[left]), False)
        for left, right in pairwise(at)
        if held_up[left + 1 : right].all()
    ]
    if len(at) and held_up[at[-1] + 1 :].all():
        pauses.append((float(ends[-1] - ends[at[-1]]), True))
    return max(pauses, default=None)


def _is_told(table: SweepTable, row: Row, field: str) -> bool:
    return field == "scheduler" or table.matters(row, field)


def _note(steps: pd.DataFrame) -> str:
    words = [f"first token after {_duration(float(steps['first_token_ms'].iloc[0]))}"]
    pause = longest_pause_ms(steps)
    if pause is not None:
        over = "over " if pause[1] else ""
        words.append(f"longest wait of a stream {over}{_duration(pause[0])}")
    return ", ".join(words)


def _duration(ms: float) -> str:
    """
    >>> _duration(890.4), _duration(531_193.0)
    ('890 ms', '531 s')
    """
    return f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1e3:,.0f} s"
