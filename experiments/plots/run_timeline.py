"""`timeline.png` of one run: its busiest moment, step by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.busy_moment import Seen, choose_row, choose_window

from .pauses import lane_note
from .style import value_label
from .timeline import Lane, save_timeline

STEPS_IN_SIGHT = 150


def draw_busiest(
    requests: pd.DataFrame, steps: pd.DataFrame, names: tuple[str, str], path: Path
) -> Path | None:
    """A long prompt arriving on running streams; None if none ever did.

    names: of the policy, and of what was served by what prices.
    """
    run = Seen(
        arrival_ms=requests["arrival_s"].to_numpy(np.float64) * 1e3,
        wait_ms=requests["ttft_ms"].to_numpy(np.float64),
        end_ms=steps["end_s"].to_numpy(np.float64) * 1e3,
        duration_ms=steps["step_ms"].to_numpy(np.float64),
        streams=(steps["running"] - steps["prefill_seqs"]).to_numpy(np.float64),
    )
    row = choose_row(requests["prompt_tokens"].to_numpy(np.float64), [run])
    if row is None:
        return None
    before_ms, after_ms = choose_window([run], row, STEPS_IN_SIGHT)
    arrival_ms = float(run.arrival_ms[row])
    shown = steps.assign(
        start_ms=run.end_ms - run.duration_ms - arrival_ms, duration_ms=run.duration_ms
    )
    shown = shown[(run.end_ms > arrival_ms - before_ms) & (shown["start_ms"] < after_ms)]
    wait_ms = float(run.wait_ms[row])
    prompt = value_label(int(requests["prompt_tokens"].iloc[row]))
    return save_timeline(
        path,
        [Lane(names[0], shown, wait_ms, lane_note(shown, wait_ms))],
        title=f"A {prompt}-token prompt arrives on running streams",
        subtitle=f"Every box is one step, as wide as it lasts.\n{names[1]}, "
        f"after {arrival_ms / 1e3:,.1f} s",
        start_ms=-before_ms,
        end_ms=after_ms,
    )
