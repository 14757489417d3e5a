"""The lesson's figure: a lane per variant, who has the GPU in each step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.lesson import Outcome

from .style import house_style
from .timeline import READING, Lane, save_timeline

BEFORE_MS, AFTER_MS = 18.0, 172.0


def draw_lesson(outcomes: Sequence[Outcome], path: Path) -> Path:
    """Draw all variants over the same stretch of time; returns the path."""
    with house_style():
        return save_timeline(
            path,
            [_lane(outcome) for outcome in outcomes],
            title="A 2,048-token prompt arrives while four streams decode",
            subtitle=READING,
            start_ms=-BEFORE_MS,
            end_ms=AFTER_MS,
        )


def _lane(outcome: Outcome) -> Lane:
    name = (
        f"{outcome.variant.name} ({outcome.variant.scheduler}): TTFT {outcome.ttft_ms:.4g} ms, "
        f"a token every {outcome.cadence_ms:.4g} ms, worst gap {outcome.worst_gap_ms:.4g} ms"
    )
    return Lane(name, pd.DataFrame(outcome.steps), outcome.ttft_ms)
