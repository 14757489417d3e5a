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
from .words import reach, table, times

AGENTS = PRESETS["agent-tools"]


def workload(rate: float, seed: int) -> Trace:
    """1,000 turns of the agent preset, sessions starting at this rate."""
    return preset("agent-tools", requests=1000, rate=rate, seed=seed)


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
        f"{AGENTS.ttft_ms / 1e3:g} s and TPOT <= {AGENTS.tpot_ms:g} ms? With prefix caching."
    ),
    load_label="sessions started/s",
    loads=(0.25, 0.5, 1.0, 2.0, 4.0),
    at=1.0,
    workload=workload,
    groups=groups,
    limits={"all": Slo(ttft_ms=AGENTS.ttft_ms, tpot_ms=AGENTS.tpot_ms)},
    candidates={
        "sglang 8192": lambda: SglangScheduler(8192),
        "vllm 8192": lambda: VllmScheduler(8192),
        "vllm 2048": lambda: VllmScheduler(2048),
        "chunked 8192, chunks of 512": lambda: ChunkedPrefillScheduler(8192, chunk_size=512),
        "dynamic 45 ms": lambda: DynamicChunkScheduler(8192, tpot_target_ms=45.0),
    },
    baseline="vllm 8192",
    shown={
        "TTFT p50, later turns": ("ttft_ms_p50", "later turns"),
        "TTFT p99, later turns": ("ttft_ms_p99", "later turns"),
        "longest pause p99": ("pause_ms_p99", "all"),
    },
    seeds=(1, 2),
    cost_model="b300-qwen3-32b-tp1",
    prefix_caching=True,
)

COLUMNS = {
    "good": ("good", "all"),
    "TTFT p50, later turns": ("ttft_ms_p50", "later turns"),
    "TTFT p99, later turns": ("ttft_ms_p99", "later turns"),
    "TTFT p99, first turns": ("ttft_ms_p99", "first turns"),
    "TPOT p99": ("tpot_ms_p99", "all"),
    "longest pause p99": ("pause_ms_p99", "all"),
}


def findings(outcome: Outcome) -> list[str]:
    """The table at the load of comparison, and what it means."""
    ranked = outcome.ranked()
    best, last = ranked[0], ranked[-1]
    base = STUDY.baseline

    def of(candidate: str, quantity: str, group: str = "all") -> float:
        return outcome.mean(candidate, quantity, group)

    later = times(of(best, "ttft_ms_p99", "later turns"), of(base, "ttft_ms_p99", "later turns"))
    return [
        *table(outcome, COLUMNS),
        "",
        f"- **Wins:** `{best}`, good for {reach(outcome, best)} sessions/s; `{base}` "
        f"{reach(outcome, base)}, `{last}` {reach(outcome, last)}.",
        f"- **Here it is TPOT that breaks first:** a tool's result of a few hundred tokens is a "
        f"small prompt, but dozens of sessions send one every few seconds, so nearly every step "
        f"has one in it. TPOT p99 at {STUDY.at:g} sessions/s is {of(base, 'tpot_ms_p99'):.0f} ms "
        f"with `{base}`, {of(best, 'tpot_ms_p99'):.0f} ms with `{best}`.",
        f"- **The budget:** `vllm 2048` is good for {reach(outcome, 'vllm 2048')} and `vllm 8192` "
        f"for {reach(outcome, 'vllm 8192')} sessions/s; chunks of 512 for "
        f"{reach(outcome, 'chunked 8192, chunks of 512')}. "
        f"Their pauses (p99) are {of('vllm 2048', 'pause_ms_p99'):.0f}, "
        f"{of('vllm 8192', 'pause_ms_p99'):.0f} and "
        f"{of('chunked 8192, chunks of 512', 'pause_ms_p99'):.0f} ms.",
        f"- **Who pays:** turns with much new text. TTFT p99 of later turns is "
        f"{of(best, 'ttft_ms_p99', 'later turns'):,.0f} ms with `{best}`, {later} with `{base}`; "
        f"of first turns {of(best, 'ttft_ms_p99', 'first turns'):,.0f} against "
        f"{of(base, 'ttft_ms_p99', 'first turns'):,.0f} ms. Over whole turns, which is what a tool "
        f"waits for, that is {of(best, 'e2e_s'):.2f} against {of(base, 'e2e_s'):.2f} s in the "
        "mean.",
    ]
