"""Voice: a spoken assistant with a strict TTFT, and summaries of documents on the same engine."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator import ChunkedPrefillScheduler, Trace
from simulator.schedulers import (
    DynamicChunkScheduler,
    EdfScheduler,
    FairScheduler,
    SglangScheduler,
    VllmScheduler,
)
from simulator.timings import Slo
from workloads import PRESETS, generate, merge, preset

from .study import Outcome, Rows, Study
from .words import number, reach, table, times

VOICE, SUMMARIES = PRESETS["voice"], PRESETS["documents"]
SUMMARY_RATE = 0.4
TURNS = 4_800


def workload(rate: float, seed: int) -> Trace:
    """4,800 spoken turns, and 0.4 summaries a second of 900 to 32,000 tokens meanwhile.

    Priority 0 is voice, 1 summaries.
    """
    voice = preset("voice", requests=TURNS, rate=rate, seed=seed)
    summaries = generate(
        requests=round(TURNS / rate * SUMMARY_RATE),
        rate=SUMMARY_RATE,
        prompt="lognormal:6909:0.7:891:32000",
        output=SUMMARIES.output,
        seed=seed + 1000,
    )
    both = merge({"voice": voice, "summaries": summaries})
    urgent = np.array([client != "voice" for client in both.client or ()], dtype=np.int64)
    return both.changed("voice first", priority=urgent)


def groups(trace: Trace) -> Mapping[str, Rows]:
    """By client."""
    names = np.array(trace.client)
    return {name: np.flatnonzero(names == name) for name in ("voice", "summaries")}


def deadlines(budget: int) -> EdfScheduler:
    """Earliest deadline first with the limits of the two presets."""
    return EdfScheduler(
        budget,
        ttft_ms={"voice": VOICE.ttft_ms, "summaries": SUMMARIES.ttft_ms},
        tpot_ms={"voice": VOICE.tpot_ms, "summaries": SUMMARIES.tpot_ms},
    )


STUDY = Study(
    name="voice",
    title="Voice, with summaries beside it",
    question=(
        f"How many spoken turns a second, 95 % with TTFT <= {VOICE.ttft_ms:g} ms and TPOT <= "
        f"{VOICE.tpot_ms:g} ms, while {SUMMARY_RATE:g} documents a second are summarised, 95 % "
        f"within {SUMMARIES.ttft_ms / 1e3:g} s and {SUMMARIES.tpot_ms:g} ms?"
    ),
    load_label="spoken turns/s",
    loads=(10.0, 20.0, 30.0, 40.0, 50.0),
    at=20.0,
    workload=workload,
    groups=groups,
    limits={
        "voice": Slo(ttft_ms=VOICE.ttft_ms, tpot_ms=VOICE.tpot_ms),
        "summaries": Slo(ttft_ms=SUMMARIES.ttft_ms, tpot_ms=SUMMARIES.tpot_ms),
    },
    candidates={
        "sglang 8192": lambda: SglangScheduler(8192),
        "vllm 2048": lambda: VllmScheduler(2048),
        "vllm 2048, priority": lambda: VllmScheduler(2048, policy="priority"),
        "fair 2048": lambda: FairScheduler(2048),
        "chunked 512": lambda: ChunkedPrefillScheduler(512),
        "chunked 8192, chunks of 512": lambda: ChunkedPrefillScheduler(8192, chunk_size=512),
        "dynamic 45 ms": lambda: DynamicChunkScheduler(8192, tpot_target_ms=45.0),
        "edf 2048": lambda: deadlines(2048),
    },
    baseline="vllm 2048",
    shown={
        "TTFT p50, voice": ("ttft_ms_p50", "voice"),
        "TTFT p99, voice": ("ttft_ms_p99", "voice"),
        "TTFT p99, summaries": ("ttft_ms_p99", "summaries"),
    },
)

COLUMNS = {
    "good, voice": ("good", "voice"),
    "TTFT p50, voice": ("ttft_ms_p50", "voice"),
    "TTFT p99, voice": ("ttft_ms_p99", "voice"),
    "TPOT p99, voice": ("tpot_ms_p99", "voice"),
    "TTFT p50, summaries": ("ttft_ms_p50", "summaries"),
    "TTFT p99, summaries": ("ttft_ms_p99", "summaries"),
}


def findings(outcome: Outcome) -> list[str]:
    """The table at the load of comparison, and what it means."""
    best, second = outcome.ranked()[:2]

    def of(candidate: str, quantity: str, group: str) -> float:
        return outcome.mean(candidate, quantity, group)

    later = times(of(best, "ttft_ms_p50", "summaries"), of("vllm 2048", "ttft_ms_p50", "summaries"))

    def voice(candidate: str) -> str:
        return number("good", of(candidate, "good", "voice"))

    priority = "vllm 2048, priority"
    return [
        *table(outcome, COLUMNS),
        "",
        f"- **Wins:** `{best}`, good for {reach(outcome, best)} spoken turns/s; next is `{second}` "
        f"with {reach(outcome, second)}. At {STUDY.at:g} a second {voice(best)} and "
        f"{voice(second)} of the turns are good.",
        f"- **Priorities alone do not help:** {voice(priority)} good with them, "
        f"{voice('vllm 2048')} without. A turn that arrives while a document is half done shares "
        "steps with it whatever the order of the queue: what counts is the size of the chunk.",
        f"- **A small budget is the worst of all ways to cut:** `chunked 512` has the least TPOT, "
        f"and {voice('chunked 512')} are good, for a half-done document takes the whole budget; "
        f"chunks of 512 in a budget of 8,192 leave room beside it: "
        f"{voice('chunked 8192, chunks of 512')}.",
        f"- **Fair shares** ({voice('fair 2048')}) and a step target "
        f"({voice('dynamic 45 ms')}) change little here: neither puts a turn before the rest of a "
        "document.",
        f"- **Who pays:** the summaries. Their median TTFT is "
        f"{of(best, 'ttft_ms_p50', 'summaries'):,.0f} ms with `{best}`, {later} "
        f"with `vllm 2048`; p99 {of(best, 'ttft_ms_p99', 'summaries'):,.0f} ms. And the turns' own "
        f"median goes from {of('vllm 2048', 'ttft_ms_p50', 'voice'):.0f} to "
        f"{of(best, 'ttft_ms_p50', 'voice'):.0f} ms: deadlines leave no one early.",
    ]
