"""U07: A has 2 tokens 100 apart, B 11 tokens 10 apart. Both means are right, and differ."""

from __future__ import annotations

import pytest

from simulator import EngineView, KVCache, Plan, simulate
from simulator.metrics import summarize
from simulator.units import NS_PER_MS
from tests.timeline import Scripted, asked, tokens_ms


class FavoursTheSecond:
    """Both prompts at once; then only the second decodes, until 100 ms."""

    def plan(self, view: EngineView) -> Plan:
        """An explicit choice of who decodes."""
        if view.waiting:
            return Plan(prefill=tuple((s, s.remaining_tokens) for s in view.waiting))
        everybody = tuple(view.decoding)
        return Plan(everybody if view.now_ns >= 100 * NS_PER_MS else everybody[1:])


def test_requests_count_once_in_tpot_and_gaps_count_once_in_itl() -> None:
    """(100 + 10) / 2 = 55 against (100 + 10 x 10) / 11 = 18.18; not 200 / 13."""
    trace = asked((0, 4, 2), (0, 4, 11))

    result = simulate(trace, FavoursTheSecond(), Scripted(*[10] * 11), KVCache(10), leap=False)
    summary = summarize(result)

    assert tokens_ms(result, 0) == [10, 110]
    assert tokens_ms(result, 1) == [10 * (k + 1) for k in range(11)]
    assert (summary["tpot_ms"]["mean"], summary["tpot_ms"]["n"]) == (55, 2)
    assert summary["itl_ms"]["mean"] == pytest.approx(200 / 11, rel=1e-9)
    assert summary["itl_ms"]["n"] == 11
    assert summary["itl_per_request_ms"]["mean"] == 55
