"""The lesson: one long prompt among four decoding streams, five ways, each really simulated.

A decode step takes 8 ms and 2,048 prompt tokens 80 ms, 10 ms for each 256-token chunk. What the
prompt gains the streams lose, and the other way round; chunks only choose where in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator import simulate
from simulator.cost_model import CostModel
from simulator.kv_cache import KVCache
from simulator.request import Request
from simulator.result import Result, Steps
from simulator.schedulers import SCHEDULERS
from simulator.units import NS_PER_MS, ns_to_ms

STREAMS = 4
PROMPT_TOKENS = 2048
CHUNK_TOKENS = 256
STREAM_TOKENS = 40
HEAD_START_STEPS = 3
"""Decode steps the streams have to themselves before the prompt arrives."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to schedule the prompt. settings: the policy's arguments."""

    name: str
    scheduler: str
    settings: Mapping[str, int | None]


VARIANTS = (
    Variant("whole prompt first", "continuous", {"max_num_batched_tokens": None}),
    Variant("whole prompt fused", "chunked", {"max_num_batched_tokens": None}),
    Variant(
        "chunks of 256 fused",
        "chunked",
        {"max_num_batched_tokens": None, "chunk_size": CHUNK_TOKENS},
    ),
    Variant(
        "chunks of 256 in turn",
        "alternating",
        {"max_num_batched_tokens": None, "chunk_size": CHUNK_TOKENS},
    ),
    Variant("token budget 256 fused", "chunked", {"max_num_batched_tokens": CHUNK_TOKENS}),
)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What one variant did. Times in ms since the prompt arrived.

    ttft_ms: of the prompt. cadence_ms: most usual gap between two tokens of a stream until the
    prompt is done; worst_gap_ms: the largest. prompt_steps: steps that carried prompt tokens.
    steps: columns start_ms, duration_ms, prefill_tokens, decode_seqs, shape (steps,) each.
    """

    variant: Variant
    ttft_ms: float
    cadence_ms: float
    worst_gap_ms: float
    prompt_steps: int
    steps: dict[str, NDArray[Any]]  # Any: floats for times, integers for counts

    def as_dict(self) -> dict[str, Any]:  # Any: JSON values
        """Everything but the arrays, and the steps as a list of rows."""
        columns = {name: column.tolist() for name, column in self.steps.items()}
        return {
            "variant": self.variant.name,
            "scheduler": self.variant.scheduler,
            "settings": dict(self.variant.settings),
            "ttft_ms": self.ttft_ms,
            "cadence_ms": self.cadence_ms,
            "worst_gap_ms": self.worst_gap_ms,
            "prompt_steps": self.prompt_steps,
            "steps": [
                dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
            ],
        }


def run_lesson(cost_model: CostModel) -> list[Outcome]:
    """Simulate every variant, in order."""
    return [_run(variant, cost_model) for variant in VARIANTS]


def _run(variant: Variant, cost_model: CostModel) -> Outcome:
    policy = SCHEDULERS[variant.scheduler](**variant.settings)
    alone = simulate(_streams(), policy, cost_model, KVCache(1024))
    arrival_ns = int(alone.steps.end_ns[HEAD_START_STEPS])
    prompt = Request("prompt", arrival_ns, PROMPT_TOKENS, 1)
    policy = SCHEDULERS[variant.scheduler](**variant.settings)
    return _measure(variant, simulate([*_streams(), prompt], policy, cost_model, KVCache(1024)))


def _streams() -> list[Request]:
    """One-token prompts at t=0: after one tiny step all they do is decode."""
    return [Request(f"stream {i + 1}", 0, 1, STREAM_TOKENS) for i in range(STREAMS)]


def _measure(variant: Variant, result: Result) -> Outcome:
    arrival_ns = int(result.requests.arrival_ns[STREAMS])
    done_ns = int(result.requests.first_token_ns[STREAMS])
    log = result.steps
    decoded = log.end_ns[log.decode_seqs > 0]
    while_waiting = (decoded > arrival_ns) & (np.append(arrival_ns, decoded[:-1]) < done_ns)
    gaps = np.diff(decoded, prepend=decoded[0])[while_waiting]
    values, counts = np.unique(gaps, return_counts=True)
    during = (log.end_ns > arrival_ns) & (log.end_ns <= done_ns)
    return Outcome(
        variant,
        ttft_ms=ns_to_ms(done_ns - arrival_ns),
        cadence_ms=ns_to_ms(int(values[np.argmax(counts)])),
        worst_gap_ms=ns_to_ms(int(gaps.max())),
        prompt_steps=int(np.count_nonzero(log.prefill_tokens[during])),
        steps=_steps(log, arrival_ns),
    )


def _steps(log: Steps, arrival_ns: int) -> dict[str, NDArray[Any]]:  # Any: as in `Outcome`
    start_ns = log.end_ns - log.duration_ns - arrival_ns
    return {
        "start_ms": start_ns / NS_PER_MS,
        "duration_ms": log.duration_ns / NS_PER_MS,
        "prefill_tokens": log.prefill_tokens,
        "decode_seqs": log.decode_seqs,
    }
