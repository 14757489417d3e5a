"""U08: outputs 1, 1 and 3; the third has its tokens at 50, 60 and 90. TPOT limit 15."""

from __future__ import annotations

import json

from simulator import ChunkedPrefillScheduler, KVCache, simulate
from simulator.metrics import summarize
from simulator.timings import Slo
from tests.timeline import Scripted, asked, ms, tokens_ms


def run(*outputs: int):
    trace = asked(*[(0, 8, output) for output in outputs])
    prices = Scripted(50, 10, 30)
    return simulate(trace, ChunkedPrefillScheduler(), prices, KVCache(10), leap=False)


def test_one_token_answers_are_in_no_statistic_between_tokens() -> None:
    result = run(1, 1, 3)
    summary = summarize(result, slo=Slo(tpot_ms=15))

    assert tokens_ms(result, 2) == [50, 60, 90]
    tpot, itl = summary["tpot_ms"], summary["itl_ms"]
    assert (tpot["n"], tpot["mean"], tpot["p99"], tpot["min"]) == (1, 20, 20, 20)
    assert (itl["n"], itl["min"], itl["mean"], itl["max"]) == (2, 10, 20, 30)


def test_one_token_answer_meets_a_tpot_limit() -> None:
    """Two of three are good."""
    summary = summarize(run(1, 1, 3), slo=Slo(tpot_ms=15))

    assert summary["goodput_fraction"] == 2 / 3


def test_ttft_of_a_one_token_answer_is_its_e2e() -> None:
    log = run(1, 1, 3).requests

    assert ms(log.first_token_ns)[:2] == ms(log.finish_ns)[:2] == [50, 50]


def test_only_one_token_answers_leave_tpot_and_itl_absent() -> None:
    summary = json.loads(json.dumps(summarize(run(1, 1, 1)), allow_nan=False))

    for name in ("tpot_ms", "itl_ms"):
        assert summary[name]["n"] == 0
        assert summary[name]["mean"] is summary[name]["p50"] is summary[name]["p99"] is None
