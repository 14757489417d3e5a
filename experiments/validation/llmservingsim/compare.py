"""Simulate a recorded run, and compare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from experiments.validation.report import Row, Samples, compared, mean_absolute_error
from simulator import simulate
from simulator.cost_model import CostModel
from simulator.prefix_cache import PrefixCache
from simulator.result import Ints, Result
from simulator.schedulers.vllm import VllmScheduler
from simulator.timings import tpot_ms
from simulator.units import NS_PER_MS, NS_PER_S

from .prices import usable_blocks
from .recorded import QUANTITIES, Floats, Recorded


def served(run: Recorded, prices: CostModel) -> Result:
    """The run, simulated with its own settings."""
    return simulate(
        run.trace,
        VllmScheduler(
            run.max_num_batched_tokens,
            run.max_num_seqs,
            scheduler_reserve_full_isl=run.reserve_full_isl,
        ),
        prices,
        PrefixCache(usable_blocks(run)[0], 16),
        async_scheduling=run.async_scheduling,
        max_model_len=run.max_model_len,
    )


def times_of(result: Result) -> dict[str, Floats]:
    """Quantity -> milliseconds per request, on the clock of the recording."""
    log, rows = result.requests, np.arange(len(result.trace))
    taken_ns = _taken_ns(result)
    return {
        "ttft_ms": (log.first_token_ns - taken_ns) / NS_PER_MS,
        "tpot_ms": tpot_ms(result, rows),
        "e2el_ms": (log.finish_ns - taken_ns) / NS_PER_MS,
    }


def makespan_s(result: Result) -> float:
    """From the first request to the last token."""
    return float((result.requests.finish_ns.max() - _taken_ns(result).min()) / NS_PER_S)


def _taken_ns(result: Result) -> Ints:
    """When the engine takes each request in: on arrival if idle, else when the step under way ends.

    Source: vLLM 0.19, `vllm/v1/engine/core.py`, `run_busy_loop`: input queue, then one step.
    """
    ends_ns, arrival_ns = result.steps.end_ns, result.requests.arrival_ns
    step = np.minimum(np.searchsorted(ends_ns, arrival_ns), len(ends_ns) - 1)
    starts_ns = ends_ns[step] - result.steps.duration_ns[step]
    is_busy = (starts_ns < arrival_ns) & (arrival_ns <= ends_ns[step])
    return np.where(is_busy, ends_ns[step], arrival_ns)


def compared_run(
    run: Recorded, times: dict[str, Floats], makespan: float, *, fitted_on: str, but: frozenset[int]
) -> tuple[list[Row], list[Samples]]:
    """Rows and samples of the requests that no constant was read off. but: the others."""
    kept = np.array([row not in but for row in range(len(run.trace))])
    rows: list[Row] = []
    samples = []
    for quantity in QUANTITIES:
        pairs = Samples(run.name, quantity, run.times[quantity][kept], times[quantity][kept])
        samples.append(pairs)
        rows += [
            replace(row, peer=_peer_error(run, quantity, row.statistic, kept))
            for row in compared(pairs, fitted_on=fitted_on)
        ]
    error = (makespan - run.makespan_s) / run.makespan_s
    rows.append(Row(run.name, "makespan_s", "value", run.makespan_s, makespan, error, 1, fitted_on))
    return rows, samples


def _peer_error(
    run: Recorded, quantity: str, statistic: str, kept: NDArray[np.bool_]
) -> float | None:
    """The same error of LLMServingSim's own simulation, over the same requests."""
    if not run.peer:
        return None
    real, theirs = run.times[quantity][kept], run.peer[quantity][kept]
    if statistic == "mape":
        return mean_absolute_error(real, theirs)
    pairs = Samples(run.name, quantity, real, theirs)
    return compared(pairs, (statistic,), fitted_on="")[0].error
