"""U16: arrival 0, scheduled 30, tokens at 100, 110, 120; preempted at 120, back at 300, token 4 at
360 and token 5 at 370. Prompt 40."""

from __future__ import annotations

import numpy as np
import pytest

from simulator import ALL, EngineView, KVCache, Plan, Result, simulate
from simulator.metrics import summarize
from simulator.units import NS_PER_MS
from tests.timeline import Scripted, asked, tokens_ms


class ByTheClock:
    """Starts at 30, throws out at 120, lets back in at 300."""

    def plan(self, view: EngineView) -> Plan:
        """What the case says."""
        now_ms = view.now_ns // NS_PER_MS
        if now_ms == 120 and view.running:
            return Plan(preempt=tuple(view.running))
        if now_ms < 30 or 120 <= now_ms < 300:
            return Plan(wake_ns=(30 if now_ms < 30 else 300) * NS_PER_MS)
        return Plan(ALL, tuple((s, s.remaining_tokens) for s in view.waiting))


@pytest.fixture
def result() -> Result:
    """Steps 30-100, 100-110, 110-120, 300-360, 360-370."""
    prices = Scripted(70, 10, 10, 60, 10)
    return simulate(asked((0, 40, 5)), ByTheClock(), prices, KVCache(10), leap=False)


def test_latencies_do_not_move_with_the_preemption(result: Result) -> None:
    summary = summarize(result)

    assert tokens_ms(result, 0) == [100, 110, 120, 360, 370]
    for name, value in (
        ("ttft_ms", 100),
        ("queue_ms", 30),
        ("preempted_ms", 180),
        ("num_preemptions", 1),
        ("tpot_ms", 67.5),
        ("e2el_ms", 370),
        ("lost_tokens", 42),
    ):
        assert (summary[name]["mean"], summary[name]["n"]) == (value, 1), name


def test_gaps_span_the_preemption_and_sum_to_e2e_less_ttft(result: Result) -> None:
    gaps = np.diff(tokens_ms(result, 0))

    assert gaps.tolist() == [10, 10, 240, 10]
    assert gaps.sum() == 370 - 100
    assert result.gaps.gap_ns.tolist() == [10 * NS_PER_MS, 240 * NS_PER_MS]
    assert result.gaps.count.tolist() == [3, 1]


def test_work_done_twice_is_counted_apart(result: Result) -> None:
    """5 outputs, not 8. Lost: 40 + the 2 outputs stored at 120. The resume step processes 43:
    the 42, and the third output, which was never stored. The prompt counts once."""
    log, summary = result.requests, summarize(result)

    assert log.emitted_tokens.tolist() == [5]
    assert log.lost_tokens.tolist() == [42]
    assert result.steps.prefill_tokens.tolist() == [40, 0, 0, 43, 0]
    assert (log.prefilled_tokens.tolist(), log.recomputed_tokens.tolist()) == ([40], [43])
    assert summary["lost_tokens_total"] == 42
    assert summary["input_throughput"] == pytest.approx(40 / 0.370, rel=1e-9)
    assert summary["output_throughput"] == pytest.approx(5 / 0.370, rel=1e-9)
