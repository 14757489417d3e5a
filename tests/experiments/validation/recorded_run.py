"""A recorded run in AIConfigurator's format, made by the simulator: what happened is known."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from costmodels import StepsCostModel
from experiments.validation.aic_fpm.replay import FRONT_END_NS, FRONT_END_NS_PER_TOKEN
from simulator import KVCache, Result, Trace, simulate
from simulator.plan import Plan
from simulator.schedulers import VllmScheduler
from simulator.view import EngineView

CLIENTS, BUDGET = 6, 512
PRICES = {
    "step_ms": 8.0,
    "compute_ms_per_token": 0.05,
    "knee_tokens": 0.0,
    "continued_prompt_ms": 3.0,
    "decode_ms_per_context_token": 2e-3,
}
ORDER = (2, 0, 5, 1, 4, 3)
"""In which the clients' threads won their race."""


class Planned(NamedTuple):
    """What the log says of the prompts of one step."""

    past: int
    variance: float


class Recorder:
    """The `vllm` policy, that keeps the prompts of every step."""

    name = "vllm"

    def __init__(self, alignment: int) -> None:
        self._policy = VllmScheduler(BUDGET, 64, prefill_alignment_tokens=alignment)
        self.max_num_seqs, self.step_token_limit = 64, BUDGET
        self.planned: list[Planned] = []

    def plan(self, view: EngineView) -> Plan:
        """The policy's plan."""
        plan = self._policy.plan(view)
        if plan.prefill or plan.decode_seqs(view.decoding.size):
            lengths = [sequence.prompt_tokens for sequence, _ in plan.prefill]
            past = sum(sequence.computed_tokens for sequence, _ in plan.prefill)
            self.planned.append(Planned(past, float(np.var(lengths)) if lengths else 0.0))
        return plan


def write_run(folder: Path, *, name: str = "mine_tp2_ep1", alignment: int = 0) -> pd.DataFrame:
    """Both segments of a run, and its requests; the requests of the real one, as a frame."""
    parts = []
    for segment, seed, n in (("sweep", 1, 24), ("real", 2, 40)):
        trace = _trace(seed, n)
        recorder = Recorder(alignment)
        result = simulate(
            trace,
            recorder,
            StepsCostModel(**PRICES),
            KVCache(blocks=100_000),
            users=CLIENTS,
            async_scheduling=True,
            leap=False,
        )
        parts.append((_steps(result, recorder, segment), _requests(result, trace, segment)))
    steps = pd.concat([part[0] for part in parts])
    requests = pd.concat([part[1] for part in parts])
    steps.to_csv(folder / f"{name}.steps.csv.gz", index=False)
    requests.to_csv(folder / f"{name}.requests.csv.gz", index=False)
    return requests[requests.workload_label == "real"]


def _trace(seed: int, n: int) -> Trace:
    rng = np.random.default_rng(seed)
    rows = np.array([*ORDER, *range(CLIENTS, n)])
    prompts = rng.integers(20, 1500, n)[rows]
    arrivals = np.array([0, 9, 30, 33, 60, 90], dtype=np.int64) * 1_000_000
    return Trace(
        arrival_ns=np.concatenate([arrivals, np.full(n - CLIENTS, arrivals[-1])]),
        prompt_tokens=prompts,
        output_tokens=rng.integers(5, 60, n)[rows],
        think_ns=FRONT_END_NS + FRONT_END_NS_PER_TOKEN * prompts,
        source_row=rows,
    )


def _steps(result: Result, recorder: Recorder, segment: str) -> pd.DataFrame:
    steps, n = result.steps, len(result.steps)
    assert len(recorder.planned) == n
    return pd.DataFrame(
        {
            "workload_segment": segment,
            "counter_id": np.arange(n) + (1000 if segment == "real" else 0),
            "sum_prefill_tokens": steps.prefill_tokens,
            "num_prefill_requests": steps.prefill_seqs,
            "sum_prefill_kv_tokens": [planned.past for planned in recorder.planned],
            "var_prefill_length": [round(planned.variance, 3) for planned in recorder.planned],
            "num_decode_requests": steps.decode_seqs,
            "sum_decode_kv_tokens": steps.context_tokens,
            "var_decode_kv_tokens": 0.0,
            "latency_ms": steps.duration_ns / 1e6,
        }
    )


def _requests(result: Result, trace: Trace, segment: str) -> pd.DataFrame:
    waited = result.requests.finish_ns - result.requests.arrival_ns + trace.think_ns
    frame = pd.DataFrame(
        {
            "workload_label": segment,
            "request_index": trace.source_row + 200,
            "prompt_tokens": trace.prompt_tokens,
            "output_tokens": trace.output_tokens,
            "e2e_seconds": np.round(waited / 1e9, 6),
        }
    )
    return frame.sort_values("request_index")
