"""`timeline.png` of a sweep: the same long prompt under several settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.saved_files import SWEEP, saved_table

from .pauses import lane_note
from .style import level_label, value_label
from .sweep_table import Row, SweepTable
from .timeline import READING, Lane, save_timeline

_ORDER = ("scheduler", "chunk_size", "max_num_batched_tokens")


def draw_moment(table: SweepTable, saved: Path, path: Path) -> Path | None:
    """Draw `timelines.parquet`; None when the sweep found no such moment."""
    if not saved.is_file():
        return None
    frame = saved_table(saved, remedy=SWEEP)
    first = frame.iloc[0]
    points = [int(point) for point in frame["point"].drop_duplicates()]
    names, common = lane_names(table, points)
    lanes = []
    for point, name in zip(points, names, strict=True):
        steps = frame[frame["point"] == point]
        first_token_ms = float(steps["first_token_ms"].iloc[0])
        lanes.append(Lane(name, steps, first_token_ms, lane_note(steps, first_token_ms)))
    prompt, at_s = value_label(int(first["prompt_tokens"])), float(first["arrival_s"])
    where = ", ".join(filter(None, [table.setting, common]))
    return save_timeline(
        path,
        lanes,
        title=f"A {prompt}-token prompt arrives on running streams",
        subtitle=f"{READING}\n{where}, after {at_s:,.1f} s",
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


def _is_told(table: SweepTable, row: Row, field: str) -> bool:
    return field == "scheduler" or table.matters(row, field)
