"""A study: candidates x loads x seeds, measured by class of request, on the same requests.

Every candidate serves exactly the same requests (common random numbers), so that differences are
those of the policies; the spread over seeds says how sure they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodels import ExtrapolationWarning, load_cost_model
from simulator import KVCache, Result, Scheduler, State, Trace, simulate
from simulator.prefix_cache import PrefixCache
from simulator.result import NOT_YET
from simulator.timings import Slo, tpot_ms, ttft_ns
from simulator.units import NS_PER_MS, NS_PER_S

ENOUGH = 0.95
"""Share of good requests that a load is said to be served with."""

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Study:
    """What is asked, and of whom.

    workload: (load, seed) -> requests. groups: a trace -> name of a class -> its rows; the first
    one is the class that the workload is about. limits: class -> SLO. candidates: label -> new
    policy. at: the load at which the classes are compared. baseline: the candidate that others are
    held against. shown: what the figure compares at that load: label -> (quantity, class).
    uncached: candidates that go without the prefix caching that the others have.
    """

    name: str
    title: str
    question: str
    load_label: str
    loads: tuple[float, ...]
    at: float
    workload: Callable[[float, int], Trace]
    groups: Callable[[Trace], Mapping[str, Rows]]
    limits: Mapping[str, Slo]
    candidates: Mapping[str, Callable[[], Scheduler]]
    baseline: str
    shown: Mapping[str, tuple[str, str]]
    seeds: tuple[int, ...] = (1, 2, 3)
    cost_model: str = "b300-qwen3-32b-tp2"
    prefix_caching: bool = False
    uncached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """One class of one run. Times in ms, but those with their unit in the name.

    good: share that met the limits. pause_ms_p99: of the longest gap of each request. e2e_s: from
    arrival to last token, mean. end_s: when its last request was done. cached: share of its prompt
    tokens that were in the prefix cache.
    """

    good: float
    ttft_ms_p50: float
    ttft_ms_p99: float
    tpot_ms_p99: float
    pause_ms_p99: float
    e2e_s: float
    end_s: float
    cached: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of a study. runs: (candidate, load, seed, class) -> what it got."""

    study: Study
    runs: Mapping[tuple[str, float, int, str], Served]

    def mean(self, candidate: str, quantity: str, group: str, load: float | None = None) -> float:
        """A quantity of a class, mean over seeds; at the study's own load unless another."""
        return float(np.mean(self.each(candidate, quantity, group, load)))

    def each(
        self, candidate: str, quantity: str, group: str, load: float | None = None
    ) -> list[float]:
        """A quantity of a class for every seed."""
        at = self.study.at if load is None else load
        return [
            getattr(self.runs[candidate, at, seed, group], quantity) for seed in self.study.seeds
        ]

    def good(self, candidate: str, load: float) -> float:
        """Share of good requests of the class that fares worst, mean over seeds."""
        return min(self.mean(candidate, "good", group, load) for group in self.study.limits)

    def capacity(self, candidate: str) -> float:
        """The load up to which `ENOUGH` of every class are good; between loads on a line.

        The first of the loads if not even that is served so well; the last if all are.
        """
        loads = self.study.loads
        shares = [self.good(candidate, load) for load in loads]
        for place in range(1, len(loads)):
            below, above = shares[place - 1], shares[place]
            if above < ENOUGH <= below:
                part = (below - ENOUGH) / (below - above)
                return loads[place - 1] + part * (loads[place] - loads[place - 1])
        return loads[-1] if shares[0] >= ENOUGH else loads[0]

    def ranked(self) -> list[str]:
        """Candidates, the one that serves the highest load first; ties by the share at `at`."""
        key = {c: (-self.capacity(c), -self.good(c, self.study.at)) for c in self.study.candidates}
        return sorted(self.study.candidates, key=key.__getitem__)


def run_study(study: Study) -> Outcome:
    """Serve every load with every candidate, once per seed."""
    prices = load_cost_model(study.cost_model)
    memory = prices.table.kv
    assert memory is not None
    sizes = memory.blocks, memory.block_size
    plain, caching = KVCache(*sizes), PrefixCache(*sizes)
    runs: dict[tuple[str, float, int, str], Served] = {}
    for load in study.loads:
        for seed in study.seeds:
            trace = study.workload(load, seed)
            groups = study.groups(trace)
            for candidate, policy in study.candidates.items():
                caches = study.prefix_caching and candidate not in study.uncached
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ExtrapolationWarning)
                    result = simulate(trace, policy(), prices, caching if caches else plain)
                for group, rows in groups.items():
                    served = _served(result, rows, study.limits.get(group, Slo()))
                    runs[candidate, load, seed, group] = served
    return Outcome(study, runs)


def _served(result: Result, rows: Rows, limits: Slo) -> Served:
    log = result.requests
    done = rows[log.state[rows] == State.FINISHED]
    several = done[log.emitted_tokens[done] > 1]
    ttft = ttft_ns(result, done) / NS_PER_MS
    pauses = log.worst_gap_ns[done]
    e2e_ns = log.finish_ns[done] - log.arrival_ns[done]
    return Served(
        good=float(limits.is_good(result, done).sum() / len(rows)),
        ttft_ms_p50=float(np.percentile(ttft, 50)),
        ttft_ms_p99=float(np.percentile(ttft, 99)),
        tpot_ms_p99=float(np.percentile(tpot_ms(result, several), 99)),
        pause_ms_p99=float(np.percentile(pauses[pauses != NOT_YET] / NS_PER_MS, 99)),
        e2e_s=float(e2e_ns.mean() / NS_PER_S),
        end_s=float(log.finish_ns[done].max() / NS_PER_S),
        cached=float(log.cached_tokens[done].sum() / result.trace.prompt_tokens[done].sum()),
    )
