"""Interactive chat: people who wait for a first word and then read along."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator import ChunkedPrefillScheduler, ContinuousScheduler, Trace
from simulator.schedulers import DynamicChunkScheduler, SglangScheduler, VllmScheduler
from simulator.timings import Slo
from workloads import PRESETS, preset

from .study import ENOUGH, Outcome, Rows, Study
from .words import reach, spread, table, times

CHAT = PRESETS["chat"]
LONG = 4_000


def workload(rate: float, seed: int) -> Trace:
    """800 requests of the chat preset."""
    return preset("chat", requests=800, rate=rate, seed=seed)


def groups(trace: Trace) -> Mapping[str, Rows]:
    """Everybody; and, among them, the short and the long prompts."""
    long = trace.prompt_tokens >= LONG
    return {
        "all": np.arange(len(trace)),
        "short prompts": np.flatnonzero(~long),
        "long prompts": np.flatnonzero(long),
    }


STUDY = Study(
    name="chat",
    title="Interactive chat",
    question=(
        "How many requests a second can be served so that 95 % of them have TTFT <= "
        f"{CHAT.ttft_ms:g} ms and TPOT <= {CHAT.tpot_ms:g} ms?"
    ),
    load_label="requests/s",
    loads=(8.0, 10.0, 12.0, 14.0, 16.0, 18.0),
    at=12.0,
    workload=workload,
    groups=groups,
    limits={"all": Slo(ttft_ms=CHAT.ttft_ms, tpot_ms=CHAT.tpot_ms)},
    candidates={
        "continuous": lambda: ContinuousScheduler(8192),
        "sglang 8192": lambda: SglangScheduler(8192),
        "vllm 8192": lambda: VllmScheduler(8192),
        "chunked 2048": lambda: ChunkedPrefillScheduler(2048),
        "chunked 8192, chunks of 512": lambda: ChunkedPrefillScheduler(8192, chunk_size=512),
        "chunked 512": lambda: ChunkedPrefillScheduler(512),
        "dynamic 36 ms": lambda: DynamicChunkScheduler(8192, tpot_target_ms=36.0),
    },
    baseline="vllm 8192",
    shown={
        "TTFT p99, short prompts": ("ttft_ms_p99", "short prompts"),
        "TTFT p99, long prompts": ("ttft_ms_p99", "long prompts"),
        "longest pause p99": ("pause_ms_p99", "all"),
    },
)

COLUMNS = {
    "good": ("good", "all"),
    "TTFT p50, short": ("ttft_ms_p50", "short prompts"),
    "TTFT p99, short": ("ttft_ms_p99", "short prompts"),
    f"TTFT p99, {LONG:,}+ tokens": ("ttft_ms_p99", "long prompts"),
    "TPOT p99": ("tpot_ms_p99", "all"),
    "longest pause p99": ("pause_ms_p99", "all"),
}


def findings(outcome: Outcome) -> list[str]:
    """The table at the load of comparison, and what it means."""
    ranked = outcome.ranked()
    best, last = ranked[0], ranked[-1]
    serving = [c for c in ranked if outcome.good(c, STUDY.at) >= ENOUGH]
    smooth = min(serving, key=lambda c: outcome.mean(c, "pause_ms_p99", "all"))
    rough = max(serving, key=lambda c: outcome.mean(c, "pause_ms_p99", "all"))
    quick = min(serving, key=lambda c: outcome.mean(c, "ttft_ms_p50", "short prompts"))

    def ms(candidate: str, quantity: str, group: str) -> str:
        return f"{outcome.mean(candidate, quantity, group):,.0f} ms"

    return [
        *table(outcome, COLUMNS),
        "",
        f"- **Wins:** `{best}`, good for {reach(outcome, best)} requests/s; `{last}` for "
        f"{reach(outcome, last)}. At {STUDY.at:g} requests/s the share of good requests over the "
        f"three seeds is {spread(outcome.each(best, 'good', 'all'), 'good')} and "
        f"{spread(outcome.each(last, 'good', 'all'), 'good')}.",
        f"- **Prompts first costs more than any budget but a too small one:** `chunked "
        f"512` serves {reach(outcome, 'chunked 512')}, `chunked 2048` "
        f"{reach(outcome, 'chunked 2048')}, `vllm 8192` {reach(outcome, 'vllm 8192')}, "
        f"`continuous` {reach(outcome, 'continuous')} and `sglang` "
        f"{reach(outcome, 'sglang 8192')} requests/s.",
        f"- **Smoothest** of those that serve this load is `{smooth}`: the longest pause of an "
        f"answer is {ms(smooth, 'pause_ms_p99', 'all')} at p99, with `{rough}` "
        f"{ms(rough, 'pause_ms_p99', 'all')}.",
        f"- **Who pays for it:** its long prompts wait {ms(smooth, 'ttft_ms_p99', 'long prompts')} "
        f"(TTFT p99), {_against(outcome, smooth, rough, 'long prompts')} with `{rough}`; and its "
        f"short prompts {ms(smooth, 'ttft_ms_p50', 'short prompts')} in the median, where "
        f"`{quick}` needs {ms(quick, 'ttft_ms_p50', 'short prompts')}.",
    ]


def _against(outcome: Outcome, one: str, other: str, group: str) -> str:
    return times(outcome.mean(one, "ttft_ms_p99", group), outcome.mean(other, "ttft_ms_p99", group))
