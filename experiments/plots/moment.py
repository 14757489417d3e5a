"""`timeline.png` of a sweep: the same long prompt on every scheduler."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from .style import value_label
from .timeline import Lane, save_timeline


def draw_moment(saved: Path, path: Path) -> Path | None:
    """Draw `timelines.parquet`; None when the sweep kept no moment."""
    if not saved.is_file():
        return None
    frame = pd.read_parquet(saved)
    if frame.empty:
        return None
    first = frame.iloc[0]
    lanes = []
    for name, steps in frame.groupby("lane", sort=False):
        token_ms = steps["first_token_ms"].iloc[0]
        lanes.append(Lane(str(name), steps, None if pd.isna(token_ms) else float(token_ms)))
    prompt, at = value_label(int(first["prompt_tokens"])), float(first["arrival_s"])
    return save_timeline(
        path,
        lanes,
        title=f"A {prompt}-token prompt arrives on running streams",
        subtitle=f"Every box is one step, as wide as it lasts; {at:,.1f} s into the run.",
        start_ms=float(first["window_start_ms"]),
        end_ms=float(first["window_end_ms"]),
    )
