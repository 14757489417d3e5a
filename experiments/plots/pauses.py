"""What a lane of the step timeline says in words: the prompt's wait and the streams'."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd


def lane_note(steps: pd.DataFrame, first_token_ms: float) -> str:
    """Both sides of the trade. steps: those in sight, with running and prefill_seqs."""
    words = [f"first token after {_duration(first_token_ms)}"]
    pause = longest_pause_ms(steps)
    if pause is not None:
        over = "over " if pause[1] else ""
        words.append(f"longest wait of a stream {over}{_duration(pause[0])}")
    elif _all_held_up(steps):
        begin, end = steps["start_ms"].iloc[0], (steps["start_ms"] + steps["duration_ms"]).iloc[-1]
        words.append(f"no stream got a token: longest wait over {_duration(float(end - begin))}")
    return ", ".join(words)


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


def _all_held_up(steps: pd.DataFrame) -> bool:
    """Whether some sequence held a seat in every step and none got a token in any."""
    held_up = (steps["decode_seqs"] == 0) & (steps["running"] > steps["prefill_seqs"])
    return len(steps) > 0 and bool(held_up.all())


def _duration(ms: float) -> str:
    """
    >>> _duration(890.4), _duration(531_193.0)
    ('890 ms', '531 s')
    """
    return f"{ms:,.0f} ms" if ms < 10_000 else f"{ms / 1e3:,.0f} s"
