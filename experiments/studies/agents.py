"""Coding agents: sessions of many turns, most of them sent by tools, on a shared system prompt."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator import ChunkedPrefillScheduler, Trace
from simulator.schedulers import (
    DynamicChunkScheduler,
    SglangScheduler,
    VllmScheduler,
)
from simulator.timings import Slo
from workloads import PRESETS, preset

from .study import Outcome, Rows, Study
from .words import number, reach, spread, table, times

AGENTS = PRESETS["agent-tools"]
UNCACHED = "vllm 8192, no prefix cache"


def workload(rate: float, seed: int) -> Trace:
    """3,000 turns of the agent preset, sessions starting at this rate.

    Some 230 sessions: they start over minutes, several times as long as one lasts, so that the
    number of open ones and what the cache holds of them settle.
    """
    return preset("agent-tools", requests=3000, rate=rate, seed=seed)


def groups(trace: Trace) -> Mapping[str, Rows]:
    """Everybody; first turns, of which only the system prompt is cached; and later ones."""
    first = np.array([parent is None for parent in trace.parent or ()])
    return {
        "all": np.arange(len(trace)),
        "later turns": np.flatnonzero(~first),
        "first turns": np.flatnonzero(first),
    }


STUDY = Study(
    name="agents",
    title="Coding agents",
    question=(
        "How many sessions may start a second so that 95 % of all turns have TTFT <= "
        f"{AGENTS.ttft_ms / 1e3:g} s and TPOT <= {AGENTS.tpot_ms:g} ms?"
    ),
    load_label="sessions started/s",
    loads=(0.1, 0.2, 0.3, 0.4, 0.5),
    at=0.3,
    workload=workload,
    groups=groups,
    limits={"all": Slo(ttft_ms=AGENTS.ttft_ms, tpot_ms=AGENTS.tpot_ms)},
    candidates={
        "sglang 8192": lambda: SglangScheduler(8192),
        "vllm 8192": lambda: VllmScheduler(8192),
        "vllm 2048": lambda: VllmScheduler(2048),
        "chunked 512": lambda: ChunkedPrefillScheduler(512),
        "chunked 8192, chunks of 512": lambda: ChunkedPrefillScheduler(8192, chunk_size=512),
        "dynamic 45 ms": lambda: DynamicChunkScheduler(8192, tpot_target_ms=45.0),
        UNCACHED: lambda: VllmScheduler(8192),
    },
    baseline="vllm 8192",
    shown={
        "TTFT p50, later turns": ("ttft_ms_p50", "later turns"),
        "TTFT p99, later turns": ("ttft_ms_p99", "later turns"),
        "longest pause p99": ("pause_ms_p99", "all"),
    },
    cost_model="b300-qwen3-32b-tp1",
    prefix_caching=True,
    uncached=(UNCACHED,),
)

COLUMNS = {
    "good": ("good", "all"),
    "prompt tokens from cache": ("cached", "all"),
    "TTFT p50, later turns": ("ttft_ms_p50", "later turns"),
    "TTFT p99, later turns": ("ttft_ms_p99", "later turns"),
    "TTFT p99, first turns": ("ttft_ms_p99", "first turns"),
    "TPOT p99": ("tpot_ms_p99", "all"),
    "longest pause p99": ("pause_ms_p99", "all"),
}


def findings(outcome: Outcome) -> list[str]:
    """The table at the load of comparison, and what it means."""
    cached = [c for c in outcome.ranked() if c not in STUDY.uncached]
    best, second, last = cached[0], cached[1], cached[-1]
    base, target, most = STUDY.baseline, "dynamic 45 ms", STUDY.loads[-1]

    def of(candidate: str, quantity: str, group: str = "all", load: float | None = None) -> float:
        return outcome.mean(candidate, quantity, group, load)

    def share(candidate: str, quantity: str, load: float | None = None) -> str:
        return number(quantity, of(candidate, quantity, load=load))

    later = times(of(target, "ttft_ms_p99", "later turns"), of(base, "ttft_ms_p99", "later turns"))
    pauses = [(c, of(c, "pause_ms_p99")) for c in ("chunked 512", "vllm 2048", base, "sglang 8192")]
    return [
        *table(outcome, COLUMNS),
        "",
        f"- **Wins:** `{best}`, good for {reach(outcome, best)} sessions/s, but by little: next is "
        f"`{second}` with {reach(outcome, second)}, and `{last}`, the last that has a prefix "
        f"cache, is good for {reach(outcome, last)}. Over the seeds the share of good turns at "
        f"{STUDY.at:g} sessions/s is {spread(outcome.each(best, 'good', 'all'), 'good')} with the "
        f"first and {spread(outcome.each(last, 'good', 'all'), 'good')} with the last.",
        f"- **The prefix cache decides, not the policy:** without it `{base}` has "
        f"{share(UNCACHED, 'good', STUDY.loads[0])} good turns at {STUDY.loads[0]:g} sessions/s, "
        f"with it {share(base, 'good', STUDY.loads[0])}. A turn sends some 13,000 tokens, of "
        f"which fewer than a thousand are new: {share(base, 'cached')} are found in the cache.",
        f"- **Past the knee it falls off a cliff:** at {most:g} sessions/s "
        f"{share(base, 'cached', most)} are found, and {share(base, 'good', most)} of the turns "
        "are good. Open sessions no longer fit the memory together, what waits for a tool is "
        "evicted and read again, turns last longer, and more sessions are open at once. A turn "
        f"takes {of(base, 'e2e_s'):.1f} s in the mean at {STUDY.at:g} and "
        f"{of(base, 'e2e_s', load=most):.0f} s at {most:g} sessions/s: leave a margin.",
        "- **Before that it is TPOT that breaks:** a tool's result of a few hundred tokens is a "
        "small prompt, but dozens of sessions send one every few seconds, so nearly every step "
        f"has one in it. TPOT p99 at {STUDY.at:g} sessions/s is {of(base, 'tpot_ms_p99'):.0f} ms "
        f"with `{base}`, {of('chunked 512', 'tpot_ms_p99'):.0f} ms with `chunked 512` and "
        f"{of(target, 'tpot_ms_p99'):.0f} ms with `{target}`.",
        "- **The budget sets the pauses, not the load served:** the longest of an answer (p99) is "
        + ", ".join(f"{ms:,.0f} ms with `{c}`" for c, ms in pauses)
        + ".",
        f"- **Who pays:** turns with much new text. TTFT p99 of later turns is "
        f"{of(target, 'ttft_ms_p99', 'later turns'):,.0f} ms with `{target}`, {later} `{base}`; "
        f"of first turns {of(target, 'ttft_ms_p99', 'first turns'):,.0f} against "
        f"{of(base, 'ttft_ms_p99', 'first turns'):,.0f} ms. Over whole turns, which is what a tool "
        f"waits for, that is {of(target, 'e2e_s'):.2f} against {of(base, 'e2e_s'):.2f} s in the "
        "mean.",
    ]
