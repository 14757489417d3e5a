"""Simulate a recorded run, and compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodels import CostTable
from experiments.validation.report import Row, Samples, compared, mean_absolute_error
from simulator import simulate
from simulator.prefix_cache import PrefixCache
from simulator.result import Ints, Result
from simulator.schedulers.vllm import VllmScheduler
from simulator.units import NS_PER_MS, NS_PER_S

from .experts import served_by_replicas
from .prices import cost_model, usable_blocks
from .recorded import QUANTITIES, Floats, Recorded


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A simulated run: instants per request, ns, shape (n,). result: of a single engine.

    taken_ns: when the engine takes a request in: on arrival if idle, else when the step under way
    ends. Source: vLLM 0.19, `vllm/v1/engine/core.py`, `run_busy_loop`: input queue, then a step.
    """

    taken_ns: Ints
    first_token_ns: Ints
    finish_ns: Ints
    result: Result | None

    def times(self, output_tokens: Ints) -> dict[str, Floats]:
        """Quantity -> milliseconds per request, on the clock of the recording."""
        decoding_ns = self.finish_ns - self.first_token_ns
        return {
            "ttft_ms": (self.first_token_ns - self.taken_ns) / NS_PER_MS,
            "tpot_ms": decoding_ns / (np.maximum(output_tokens - 1, 1) * NS_PER_MS),
            "e2el_ms": (self.finish_ns - self.taken_ns) / NS_PER_MS,
        }

    @property
    def makespan_s(self) -> float:
        """From the first request to the last token."""
        return float((self.finish_ns.max() - self.taken_ns.min()) / NS_PER_S)


def served(run: Recorded, table: CostTable, prefill_step_factor: float = 1.0) -> Served:
    """The run, simulated with its own settings."""
    if run.replicas > 1:
        together = served_by_replicas(run, table, prefill_step_factor)
        taken_ns = _taken_ns(run.trace.arrival_ns, together.results)
        first_ns, last_ns = (together.column(name) for name in ("first_token_ns", "finish_ns"))
        return Served(taken_ns, first_ns, last_ns, None)
    result = simulate(
        run.trace,
        VllmScheduler(
            run.max_num_batched_tokens,
            run.max_num_seqs,
            scheduler_reserve_full_isl=run.reserve_full_isl,
        ),
        cost_model(run, table, prefill_step_factor=prefill_step_factor),
        PrefixCache(usable_blocks(run)[0], 16),
        async_scheduling=run.async_scheduling,
        max_model_len=run.max_model_len,
    )
    log = result.requests
    taken_ns = _taken_ns(log.arrival_ns, (result,))
    return Served(taken_ns, log.first_token_ns, log.finish_ns, result)


def _taken_ns(arrival_ns: Ints, results: Iterable[Result]) -> Ints:
    steps = [result.steps for result in results]
    ends_ns = np.concatenate([log.end_ns for log in steps])
    starts_ns = ends_ns - np.concatenate([log.duration_ns for log in steps])
    ends_ns, chosen = np.unique(ends_ns, return_index=True)
    step = np.minimum(np.searchsorted(ends_ns, arrival_ns), len(ends_ns) - 1)
    is_busy = (starts_ns[chosen][step] < arrival_ns) & (arrival_ns <= ends_ns[step])
    return np.where(is_busy, ends_ns[step], arrival_ns)


def compared_run(
    run: Recorded, simulated: Served, *, fitted_on: str, but: frozenset[int]
) -> tuple[list[Row], list[Samples]]:
    """Rows and samples of the requests that no constant was read off. but: the others."""
    times, makespan = simulated.times(run.trace.output_tokens), simulated.makespan_s
    kept = np.array([row not in but for row in range(len(run.trace))])
    rows: list[Row] = []
    samples = []
    several = run.trace.output_tokens > 1
    for quantity in QUANTITIES:
        chosen = kept & several if quantity == "tpot_ms" else kept
        if not chosen.any():
            continue
        pairs = Samples(run.name, quantity, run.times[quantity][chosen], times[quantity][chosen])
        samples.append(pairs)
        rows += [
            replace(row, peer=_peer_error(run, quantity, row.statistic, chosen))
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
