"""A recorded run, simulated: the same requests and clients, with measured or with fitted prices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import CostModel, KVCache, Result, StepShape, Trace, simulate
from simulator.schedulers import VllmScheduler

from .first_order import LoggedStep, first_order
from .runs import Run

FRONT_END_NS = 2_000_000
FRONT_END_NS_PER_TOKEN = 200
"""From an answer to the client's next request in the engine's queue: HTTP, tokenising, a thread.

Source: the pauses of this client between steps; it makes the steps of two measured runs exact.
"""
UNLIMITED_BLOCKS = 1_000_000
COMPARED = ("prefill_tokens", "prefill_requests", "decode_seqs", "decode_context")


class Arrivals(NamedTuple):
    """order: the first requests as they arrived; arrival_ns: when; is_found: the log says so, else
    they are taken in the order of their numbers, all at once."""

    order: list[int]
    arrival_ns: NDArray[np.int64]
    is_found: bool


def measured_ns(run: Run) -> NDArray[np.int64]:
    """Durations of the run's real steps."""
    return np.rint(run.log.measured_ms[run.real] * 1e6).astype(np.int64)


def arrivals_of(run: Run, *, everyone: bool = False) -> Arrivals:
    """When the clients' first requests reached the engine; with `everyone`, when all did.

    With async scheduling a request that is first computed in step k was there when step k - 2
    ended, and was not when step k - 3 did: half-way between.
    """
    requests = len(run.prompt_tokens)
    clients = min(run.clients, requests)
    last = requests if everyone else clients
    found = first_order(
        run.prompt_tokens.tolist(),
        _logged(run),
        clients=clients,
        budget=run.budget,
        alignment=run.alignment,
        last=last,
    )
    if found is None:
        return Arrivals(list(range(last)), np.zeros(last, dtype=np.int64), False)
    ends = np.concatenate([[0, 0, 0], np.cumsum(measured_ns(run))])
    seen = [0 if k < 2 else int(ends[k] + ends[k + 1]) // 2 for k in found.step]
    return Arrivals(found.order, np.maximum.accumulate(np.array(seen, dtype=np.int64)), True)


def trace_of(run: Run, arrivals: Arrivals) -> Trace:
    """The requests as a closed loop, in the order in which clients take them."""
    rows = [*arrivals.order, *range(len(arrivals.order), len(run.prompt_tokens))]
    later = np.full(len(rows) - len(arrivals.order), arrivals.arrival_ns[-1])
    prompt_tokens = run.prompt_tokens[rows]
    return Trace(
        arrival_ns=np.concatenate([arrivals.arrival_ns, later]),
        prompt_tokens=prompt_tokens,
        output_tokens=run.output_tokens[rows],
        think_ns=FRONT_END_NS + FRONT_END_NS_PER_TOKEN * prompt_tokens,
        source_row=np.array(rows, dtype=np.int64),
    )


def replay(
    run: Run, trace: Trace, prices: CostModel, *, closed: bool = True, leap: bool = True
) -> Result:
    """Simulate the run: vLLM's policy, async scheduling, a cache that is never full.

    closed: clients wait for their answers; else every request arrives as the trace says.
    """
    policy = VllmScheduler(
        max_num_batched_tokens=run.budget,
        max_num_seqs=max(run.max_num_seqs, run.clients),
        prefill_alignment_tokens=run.alignment if run.alignment > 1 else 0,
    )
    return simulate(
        trace,
        policy,
        prices,
        KVCache(blocks=UNLIMITED_BLOCKS),
        users=run.clients if closed else None,
        async_scheduling=True,
        leap=leap,
    )


class MeasuredSteps:
    """The k-th step takes as long as the k-th of the log; further ones as long as the last."""

    needs_longest_context = False

    def __init__(self, durations_ns: NDArray[np.int64]) -> None:
        self._durations: list[int] = durations_ns.tolist()
        self._next = 0

    def step_ns(self, shape: StepShape) -> int:
        """The next duration of the log, nanoseconds."""
        step = min(self._next, len(self._durations) - 1)
        self._next += 1
        return self._durations[step]

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """The next durations, nanoseconds."""
        return np.array([self.step_ns(shape) for _ in range(steps)], dtype=np.int64)


def differing_steps(run: Run, result: Result) -> int:
    """Steps whose prompt tokens, prompts, decodes or summed context are not those of the log.

    Compared one by one in order; steps that only one of the two has count too.
    """
    steps, real = result.steps, run.real
    ours = (steps.prefill_tokens, steps.prefill_seqs, steps.decode_seqs, steps.context_tokens)
    shared = min(len(steps), len(real))
    same = np.ones(shared, dtype=np.bool_)
    for column, name in zip(ours, COMPARED, strict=True):
        same &= column[:shared] == getattr(run.log, name)[real][:shared]
    return int((~same).sum()) + abs(len(steps) - len(real))


def e2e_s(run: Run, result: Result) -> NDArray[np.float64]:
    """Simulated E2E as the client sees it, seconds, by request number."""
    trace = result.trace
    assert trace.think_ns is not None
    assert trace.source_row is not None
    waited = result.requests.finish_ns - result.requests.arrival_ns + trace.think_ns
    by_number = np.empty(len(trace))
    by_number[trace.source_row] = waited / 1e9
    return by_number


def _logged(run: Run) -> list[LoggedStep]:
    log, real = run.log, run.real
    whole = (log.prefill_tokens, log.prefill_requests, log.prefill_past)
    columns = [column[real].astype(np.int64).tolist() for column in whole]
    decodes = [
        column[real].astype(np.int64).tolist() for column in (log.decode_seqs, log.decode_context)
    ]
    rows = zip(*columns, log.prompt_variance[real].tolist(), *decodes, strict=True)
    return [LoggedStep(*row) for row in rows]
