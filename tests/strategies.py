"""Hypothesis strategies shared by all tests: traces, cost models, cache sizes, policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from costmodels import ConstantCostModel, LinearCostModel
from simulator import (
    SCHEDULERS,
    AlternatingScheduler,
    ChunkedPrefillScheduler,
    ContinuousScheduler,
    CostModel,
    KVCache,
    Scheduler,
    StaticScheduler,
    StepShape,
    Trace,
)
from simulator.schedulers import (
    DynamicChunkScheduler,
    EdfScheduler,
    FairScheduler,
    SglangScheduler,
    SjfScheduler,
    VllmScheduler,
)
from simulator.units import NS_PER_MS

NewScheduler = Callable[[], Scheduler]
"""Makes a fresh policy: one with a memory of its own must not carry it into the next run."""


def steady(examples: int) -> settings:
    """So many examples, the same ones every time, however slow the machine is."""
    return settings(
        derandomize=True,
        deadline=None,
        database=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@dataclass(frozen=True)
class AffineCostModel:
    """Every term that a step can have, with odd coefficients, so that no two steps cost the same.

    The same expression serves floats and arrays; only + and *.
    """

    needs_longest_context: bool = False

    def _ms(self, prefill, past, seqs, context, longest):
        price = 5.03 + 0.013 * prefill + 0.0007 * past + 0.11 * seqs + 0.0031 * context
        return price + 0.0173 * longest if self.needs_longest_context else price

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, ns."""
        past = sum(new * past for new, past in shape.chunks)
        decodes = (shape.decode_seqs, shape.decode_context_tokens, shape.longest_context)
        return round(self._ms(shape.prefill_tokens, past, *decodes) * 1e6)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price consecutive decode-only steps, ns."""
        later = np.arange(steps, dtype=np.float64)
        context = shape.decode_context_tokens + later * shape.decode_seqs
        prices = self._ms(0, 0, shape.decode_seqs, context, shape.longest_context + later)
        return np.rint(prices * 1e6).astype(np.int64)


def linear(longest_ms: float, context_ms: float) -> LinearCostModel:
    """The model whose leaps are summed in closed form; with all its terms."""
    return LinearCostModel(
        step_ms=3.0,
        prefill_ms_per_token=0.17,
        attention_ms_per_token_pair=0.003,
        prefill_step_ms=1.1,
        decode_ms_per_sequence=0.07,
        decode_ms_per_context_token=context_ms,
        longest_context_ms_per_token=longest_ms,
        longest_context_full_at_sequences=3.0,
    )


def cost_models() -> st.SearchStrategy[CostModel]:
    """Whole milliseconds (arrivals then tie with step ends), or all terms, either way."""
    return st.one_of(
        st.builds(ConstantCostModel, st.sampled_from([3, 10]), st.sampled_from([1, 2])),
        st.builds(AffineCostModel, st.booleans()),
        st.builds(linear, st.sampled_from([0.0, 0.019]), st.sampled_from([0.0, 0.0013, 0.31])),
    )


@st.composite
def traces(draw: st.DrawFn, max_requests: int = 12, max_prompt: int = 40, max_output: int = 24):
    """A short busy trace, arrivals on whole milliseconds, ties included, with think times.

    Clients, declared limits and predictions follow from the other columns, not from the outputs.
    """
    ms = st.integers(0, 12).map(lambda gap: max(0, gap - 3))
    row = st.tuples(
        ms, st.integers(1, max_prompt), st.integers(1, max_output), ms, st.integers(0, 2)
    )
    rows = np.array(draw(st.lists(row, min_size=1, max_size=max_requests)), dtype=np.int64)
    return Trace(
        arrival_ns=np.cumsum(rows[:, 0]) * NS_PER_MS,
        prompt_tokens=rows[:, 1].copy(),
        output_tokens=rows[:, 2].copy(),
        think_ns=rows[:, 3] * NS_PER_MS,
        priority=rows[:, 4].copy(),
        client=tuple((None, "a", "b")[number] for number in rows[:, 4].tolist()),
        max_tokens=rows[:, 1] % 3 * 8,
        predicted_output_tokens=rows[:, 1] % 7 + 1,
    )


class WatchedKVCache(KVCache):
    """Remembers the cache of the last run, so that a test sees what it holds at the end."""

    last: KVCache

    def prepared(self, trace: Trace, lag: int) -> KVCache:
        """A fresh cache for a run."""
        self.last = super().prepared(trace, lag)
        return self.last


@st.composite
def kv_caches(draw: st.DrawFn, trace: Trace) -> WatchedKVCache:
    """From too small for the longest request (it is rejected) to room for a few of them."""
    block_size = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16]))
    longest = int((trace.prompt_tokens + trace.output_tokens).max())
    needed = -(-longest // block_size)
    blocks = draw(st.integers(max(1, needed - 2), 3 * needed))
    return WatchedKVCache(blocks, block_size, draw(st.sampled_from([0.0, 0.0, 0.03, 0.2])))


@st.composite
def loads(draw: st.DrawFn, trace: Trace) -> dict[str, int]:
    """Options of `simulate` about the load: open, closed or capped; a stop time; a length limit."""
    options = draw(
        st.one_of(
            st.just({}),
            st.just({}),
            st.builds(lambda users: {"users": users}, st.integers(1, 5)),
            st.builds(lambda cap: {"max_concurrency": cap}, st.integers(1, 5)),
        )
    )
    if draw(st.booleans()):
        options["async_scheduling"] = True
    if draw(st.integers(0, 3)) == 0:
        options["stop_ns"] = draw(st.integers(1, 150)) * NS_PER_MS
    if draw(st.integers(0, 5)) == 0:
        options["max_model_len"] = draw(st.integers(8, 70))
    return options


@st.composite
def _budgeted(
    draw: st.DrawFn, policy: type, chunks: bool, **further: st.SearchStrategy[object]
) -> NewScheduler:
    seqs = draw(st.integers(1, 8))
    budget = draw(st.one_of(st.none(), st.integers(seqs, 40)))
    own = {name: draw(strategy) for name, strategy in further.items()}
    if not chunks:
        return partial(policy, budget, seqs, **own)
    return partial(policy, budget, seqs, draw(st.one_of(st.none(), st.integers(1, 20))), **own)


SCHEDULER_STRATEGIES: dict[str, st.SearchStrategy[NewScheduler]] = {
    "static": st.builds(
        partial,
        st.just(StaticScheduler),
        st.integers(1, 8),
        wait_for_full_batch=st.booleans(),
        batch_timeout_s=st.one_of(st.none(), st.sampled_from([0.0, 0.004, 0.03])),
        deliver=st.sampled_from(["stream", "batch_end"]),
        pad_prompts=st.booleans(),
    ),
    "continuous": _budgeted(ContinuousScheduler, chunks=False),
    "chunked": _budgeted(ChunkedPrefillScheduler, chunks=True),
    "alternating": _budgeted(AlternatingScheduler, chunks=True),
    "vllm": st.integers(1, 8).flatmap(
        lambda seqs: st.builds(
            partial,
            st.just(VllmScheduler),
            st.integers(seqs, 40),
            st.just(seqs),
            chunk_size=st.one_of(st.none(), st.integers(1, 20)),
            enable_chunked_prefill=st.just(True),
            scheduler_reserve_full_isl=st.booleans(),
            policy=st.sampled_from(["fcfs", "priority"]),
        )
    ),
    "sglang": st.builds(
        partial,
        st.just(SglangScheduler),
        st.one_of(st.none(), st.integers(1, 40)),
        st.integers(1, 8),
        max_prefill_tokens=st.integers(1, 60),
        schedule_conservativeness=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
        enable_mixed_chunk=st.booleans(),
    ),
    "dynamic": st.integers(1, 8).flatmap(
        lambda seqs: st.builds(
            partial,
            st.just(DynamicChunkScheduler),
            st.integers(max(seqs, 5), 40),
            st.just(seqs),
            tpot_target_ms=st.sampled_from([1.0, 5.5, 6.0, 9.0, 40.0]),
            min_prefill_tokens=st.integers(1, 5),
        )
    ),
    "sjf": _budgeted(
        SjfScheduler,
        chunks=True,
        predictor=st.sampled_from(["trace", "none", lambda sequence: -sequence.row]),
        prompt_weight=st.sampled_from([0.0, 0.1, 1.0]),
    ),
    "fair": _budgeted(
        FairScheduler,
        chunks=True,
        output_weight=st.sampled_from([0.3, 2.0]),
        client_weights=st.sampled_from([1.0, "a:2.5+b:0.7"]),
    ),
    "edf": _budgeted(
        EdfScheduler,
        chunks=True,
        ttft_ms=st.sampled_from([20.0, "a:5+b:200+*:50"]),
        tpot_ms=st.sampled_from([0.5, 8.0, "a:2+b:100"]),
        classes=st.sampled_from(["client", "priority"]),
    ),
}
"""For every policy that ships, with any parameters it accepts."""

assert SCHEDULER_STRATEGIES.keys() == SCHEDULERS.keys()
