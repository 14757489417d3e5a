"""A batch of documents: all there at once, nobody reads along, the last one counts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator import ChunkedPrefillScheduler, ContinuousScheduler, StaticScheduler, Trace
from simulator.schedulers import SglangScheduler, SjfScheduler, VllmScheduler
from simulator.timings import Slo
from workloads import predict_outputs, preset

from .study import Outcome, Rows, Study
from .words import table, times

LONG = 20_000


def workload(documents: float, seed: int) -> Trace:
    """A batch of the documents preset; output lengths are predicted with an error of sigma 0.5."""
    batch = preset("documents", requests=round(documents), seed=seed)
    return predict_outputs(batch, "lognormal:0.5", seed=seed)


def groups(trace: Trace) -> Mapping[str, Rows]:
    """All, and the short and long ones among them."""
    long = trace.prompt_tokens >= LONG
    return {
        "all": np.arange(len(trace)),
        "short": np.flatnonzero(~long),
        "long": np.flatnonzero(long),
    }


STUDY = Study(
    name="documents",
    title="A batch of documents",
    question=(
        "300 documents are there at once. When is the last summary done, and when the average?"
    ),
    load_label="documents",
    loads=(300.0,),
    at=300.0,
    workload=workload,
    groups=groups,
    limits={"all": Slo()},
    candidates={
        "static 32": lambda: StaticScheduler(32),
        "continuous 8192": lambda: ContinuousScheduler(8192),
        "sglang 8192": lambda: SglangScheduler(8192),
        "vllm 16384": lambda: VllmScheduler(16384),
        "chunked 2048": lambda: ChunkedPrefillScheduler(2048),
        "chunked 512": lambda: ChunkedPrefillScheduler(512),
        "sjf 8192, sigma 0.5": lambda: SjfScheduler(8192, predictor="trace"),
        "sjf 8192, prompts only": lambda: SjfScheduler(8192, predictor="none"),
    },
    baseline="vllm 16384",
    shown={
        "last document": ("end_s", "all"),
        "mean, all": ("e2e_s", "all"),
        f"mean, {LONG:,} tokens or more": ("e2e_s", "long"),
    },
)

COLUMNS = {
    "last done (s)": ("end_s", "all"),
    "mean time to finish (s)": ("e2e_s", "all"),
    f"under {LONG:,} tokens (s)": ("e2e_s", "short"),
    f"{LONG:,} tokens or more (s)": ("e2e_s", "long"),
    "TPOT p99 (ms)": ("tpot_ms_p99", "all"),
}


def findings(outcome: Outcome) -> list[str]:
    """The table, and what it means."""
    names = list(STUDY.candidates)

    def of(candidate: str, quantity: str, group: str = "all") -> float:
        return outcome.mean(candidate, quantity, group)

    first = min(names, key=lambda c: of(c, "end_s"))
    mean = min(names, key=lambda c: of(c, "e2e_s"))
    base, guess = STUDY.baseline, "sjf 8192, sigma 0.5"
    wide = [c for c in names if "8192" in c or "16384" in c]
    slowest = max(of(c, "end_s") for c in wide) / of(first, "end_s") - 1
    longer = times(of(guess, "e2e_s", "long"), of(base, "e2e_s", "long"))
    return [
        *table(outcome, COLUMNS, capacity=False),
        "",
        f"- **The last document:** soonest with `{first}`, after {of(first, 'end_s'):.0f} s; the "
        f"other policies with a budget of 8,192 or more are within {100 * slowest:.1f} % of it: "
        "the device does the same work.",
        f"- **Chunking is not faster:** with a budget of 2,048 the batch takes "
        f"{of('chunked 2048', 'end_s'):.0f} s, with 512 {of('chunked 512', 'end_s'):.0f} s, "
        f"{times(of('chunked 512', 'end_s'), of(base, 'end_s'))} with `{base}`. "
        "Small steps read the weights more often for the same tokens. What a budget of 2,048 does "
        f"buy is the average, {of('chunked 2048', 'e2e_s'):.0f} s instead of "
        f"{of(base, 'e2e_s'):.0f}: the first documents finish while later ones are still read.",
        f"- **`static`** takes {of('static 32', 'end_s'):,.0f} s, "
        f"{times(of('static 32', 'end_s'), of(base, 'end_s'))} with `{base}`: every batch waits "
        "for its longest document and pads to it.",
        f"- **The average document:** soonest with `{mean}`, after {of(mean, 'e2e_s'):.0f} s "
        f"(`{base}`: {of(base, 'e2e_s'):.0f} s), though the last one is no later. Predicted output "
        f"lengths add nothing here: prompts alone "
        f"{of('sjf 8192, prompts only', 'e2e_s'):.0f} s, with predictions "
        f"{of(guess, 'e2e_s'):.0f} s.",
        f"- **Who pays for shortest first:** documents of {LONG:,} tokens or more, done after "
        f"{of(guess, 'e2e_s', 'long'):.0f} s in the mean, {longer} with `{base}`; the short ones "
        f"{of(guess, 'e2e_s', 'short'):.0f} instead of {of(base, 'e2e_s', 'short'):.0f} s.",
    ]
