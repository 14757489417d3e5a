"""U06: arrival 0, first scheduled at 20, tokens at 100, 110, 120, 200."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import ALL, EngineView, KVCache, Plan, Result, simulate
from simulator.metrics import summarize
from simulator.statistics import describe
from simulator.units import NS_PER_MS
from tests.timeline import Scripted, asked, tokens_ms


class StartsAt20:
    """Lets the engine idle until 20 ms, then serves everybody."""

    def plan(self, view: EngineView) -> Plan:
        """Sleep, or all prompts and all decodes."""
        if view.now_ns < 20 * NS_PER_MS:
            return Plan(wake_ns=20 * NS_PER_MS)
        return Plan(ALL, tuple((s, s.remaining_tokens) for s in view.waiting))


@pytest.fixture
def result() -> Result:
    """Steps 20-100, 100-110, 110-120, 120-200."""
    return simulate(
        asked((0, 40, 4)), StartsAt20(), Scripted(80, 10, 10, 80), KVCache(10), leap=False
    )


def test_tokens_are_where_the_case_puts_them(result: Result) -> None:
    assert tokens_ms(result, 0) == [100, 110, 120, 200]


def test_each_latency_has_one_definition(result: Result) -> None:
    summary = summarize(result)

    means = {name: (summary[name]["mean"], summary[name]["n"]) for name in summary if "_ms" in name}
    assert means["ttft_ms"] == (100, 1)
    assert means["queue_ms"] == (20, 1)
    assert means["e2el_ms"] == (200, 1)
    assert means["norm_latency_ms"] == (50, 1)
    assert means["tpot_ms"] == (pytest.approx(100 / 3, rel=1e-9), 1)


def test_itl_is_a_list_of_gaps_without_the_ttft(result: Result) -> None:
    gaps = np.repeat(result.gaps.gap_ns, result.gaps.count) / NS_PER_MS
    assert gaps.tolist() == [10, 10, 80]

    itl = summarize(result)["itl_ms"]
    assert (itl["p50"], itl["max"], itl["n"]) == (10, 80, 3)


def test_percentiles_interpolate_linearly() -> None:
    four = describe(np.array([1, 2, 3, 4]))
    one = describe(np.array([7]))

    assert (four.p50, four.n) == (2.5, 4)
    assert (four.p90, four.p99) == (pytest.approx(3.7, rel=1e-9), pytest.approx(3.97, rel=1e-9))
    assert one.p50 == one.p90 == one.p95 == one.p99 == one.mean == 7
