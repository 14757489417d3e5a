"""Given a real engine's step times, the `vllm` policy takes exactly the real engine's steps.

Logs: ../shared/ground-truth/aic-fpm-b300-vllm0201 (vLLM 0.20.1 on B300, Qwen3-32B, `real` segment):
32 clients take 128 requests in turn; a client's next request reaches the engine 2 ms + 0.2 us a
prompt token after its last answer. The 32 threads start in a race: the order in which their first
prompts are computed is read off the log (prompt sums, variances and KV sums fit one order only).
"""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from simulator import KVCache, StepShape, Trace, simulate
from simulator.schedulers import VllmScheduler

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "ground-truth" / "aic-fpm-b300-vllm0201"
CLIENTS = 32
FIRST_COMPUTED = {
    "tp1": "0 8 9 11 2 13 17 21 1 20 12 3 27 28 24 5 6 22 4 14 7 10 15 23 25 30 18 16 29 19 31 26",
    "tp2": "0 1 2 3 6 9 7 4 15 14 19 23 28 30 31 8 21 25 26 16 27 11 5 20 22 10 12 24 13 18 17 29",
    "tp4": "0 3 26 8 13 9 10 30 16 19 21 22 29 25 11 2 31 6 4 20 14 15 7 27 1 17 5 18 23 28 24 12",
}
STEPS = {"tp1": 6548, "tp2": 6714, "tp4": 6589}


class MeasuredSteps:
    """The k-th step takes as long as the k-th step of the log."""

    needs_longest_context = False

    def __init__(self, durations_ns: list[int]) -> None:
        self._durations = iter(durations_ns)

    def step_ns(self, shape: StepShape) -> int:
        return next(self._durations)

    def leap_ns(self, shape: StepShape, steps: int) -> np.ndarray:
        raise AssertionError("a log has no price for a leap")


def read(name: str) -> list[dict[str, str]]:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"needs {path.name} in ../shared/ground-truth")
    with gzip.open(path, "rt") as lines:
        return [row for row in csv.DictReader(lines) if "real" in row.values()]


def first_computed_at(order: list[int], prompts: list[int], prefill: list[int]) -> list[int]:
    """The step in which each prompt is first computed, filling the log's prefill sums in order."""
    steps: list[int] = []
    step = room = 0
    for row in order:
        left = prompts[row]
        while not room:
            room = prefill[step]
            step += 1
        steps.append(step - 1)
        while left > room:
            left, room = left - room, prefill[step]
            step += 1
        room -= left
    return steps


@pytest.mark.parametrize("tp", STEPS)
def test_step_sequence_equals_the_measured_engine(tp: str) -> None:
    log = read(f"qwen3-32b_{tp}_ep1.steps.csv.gz")
    requests = read(f"qwen3-32b_{tp}_ep1.requests.csv.gz")
    requests.sort(key=lambda request: int(request["request_index"]))
    prompts = [int(request["prompt_tokens"]) for request in requests]
    outputs = [int(request["output_tokens"]) for request in requests]
    durations = [round(float(step["latency_ms"]) * 1e6) for step in log]
    prefill = [int(step["sum_prefill_tokens"]) for step in log]

    order = [int(row) for row in FIRST_COMPUTED[tp].split()]
    rows = order + list(range(CLIENTS, len(requests)))
    ends = np.cumsum(durations)
    seen = [0 if k < 2 else int(ends[k - 2]) for k in first_computed_at(order, prompts, prefill)]
    prompt_tokens = np.array([prompts[row] for row in rows])
    trace = Trace(
        arrival_ns=np.array(seen + [seen[-1]] * (len(rows) - CLIENTS)),
        prompt_tokens=prompt_tokens,
        output_tokens=np.array([outputs[row] for row in rows]),
        think_ns=2_000_000 + 200 * prompt_tokens,
    )
    result = simulate(
        trace,
        VllmScheduler(max_num_batched_tokens=8192, max_num_seqs=128),
        MeasuredSteps(durations),
        KVCache(blocks=1_000_000),
        users=CLIENTS,
        async_scheduling=True,
        leap=False,
    )

    steps = result.steps
    assert len(steps) == len(log) == STEPS[tp]
    assert steps.prefill_tokens.tolist() == prefill
    assert steps.prefill_seqs.tolist() == [int(step["num_prefill_requests"]) for step in log]
    assert steps.decode_seqs.tolist() == [int(step["num_decode_requests"]) for step in log]
    assert steps.context_tokens.tolist() == [int(step["sum_decode_kv_tokens"]) for step in log]
