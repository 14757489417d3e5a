"""The metrics of hand-made runs, worked out by hand. Times in ms."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.metrics import summarize
from simulator.tables import request_table
from simulator.timings import Slo
from tests.simulator.results import Asked, Step, result_of
from tests.simulator.runs import (
    one_request,
    only_value,
    preempted,
    short_answers,
    summary_of,
    two_paces,
)
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000


def test_latencies_of_one_request() -> None:
    seen = summary_of(one_request())
    assert only_value(seen["ttft_ms"]) == 100
    assert only_value(seen["queue_ms"]) == 20
    assert only_value(seen["prefill_ms"]) == 80
    assert only_value(seen["e2el_ms"]) == 200
    assert only_value(seen["tpot_ms"]) == 100 / 3
    assert only_value(seen["norm_latency_ms"]) == 50
    assert only_value(seen["active_ms"]) == 110
    assert only_value(seen["stalled_ms"]) == 70
    assert (seen["itl_ms"]["n"], seen["itl_ms"]["p50"], seen["itl_ms"]["max"]) == (3, 10, 80)
    assert seen["itl_ms"]["mean"] == 100 / 3


def test_itl_samples_leave_the_first_token_out() -> None:
    gaps = one_request().gaps
    assert np.repeat(gaps.gap_ns, gaps.count).tolist() == [10 * MS, 10 * MS, 80 * MS]


def test_preemption_moves_neither_ttft_nor_queueing_delay() -> None:
    seen = summary_of(preempted())
    assert only_value(seen["ttft_ms"]) == 100
    assert only_value(seen["queue_ms"]) == 30
    assert only_value(seen["preempted_ms"]) == 180
    assert only_value(seen["num_preemptions"]) == 1
    assert only_value(seen["e2el_ms"]) == 370
    assert only_value(seen["tpot_ms"]) == 67.5
    assert only_value(seen["stalled_ms"]) == 0
    assert (seen["itl_ms"]["n"], seen["itl_ms"]["p50"], seen["itl_ms"]["max"]) == (4, 10, 240)
    assert seen["itl_ms"]["mean"] * 4 == 270


def test_recomputation_counts_as_work_and_never_as_prompt_or_output() -> None:
    """40 + 2 entries are lost; the steps compute 40 + 2 + 43 + 1 = 86 tokens in 370 ms."""
    seen = summary_of(preempted())
    assert only_value(seen["lost_tokens"]) == seen["lost_tokens_total"] == 42
    assert seen["input_throughput"] == 40_000 / 370
    assert seen["output_throughput"] == seen["emitted_token_rate"] == 5_000 / 370
    assert seen["total_token_throughput"] == 45_000 / 370
    assert seen["processed_token_rate"] == 86_000 / 370
    assert seen["recompute_tax"] == 42 / 86
    assert (seen["preemptions_total"], seen["preempted_share"]) == (1, 1.0)


def test_mean_itl_below_mean_tpot() -> None:
    """Each request counts once in TPOT: (100 + 10) / 2. Each gap counts once in ITL: 200 / 11."""
    seen = summary_of(two_paces())
    assert seen["tpot_ms"]["mean"] == 55
    assert seen["itl_ms"]["mean"] == 200 / 11
    assert seen["itl_ms"]["n"] == 11
    assert seen["itl_per_request_ms"] == seen["tpot_ms"]


def test_one_token_answers_are_in_no_tpot_and_meet_any_limit_on_it() -> None:
    seen = summary_of(short_answers(), slo=Slo(tpot_ms=15))
    assert only_value(seen["tpot_ms"]) == seen["tpot_ms"]["p99"] == 20
    assert seen["itl_ms"]["n"] == 2
    assert seen["goodput_fraction"] == seen["slo"]["tpot_ms"]["pass_rate"] == 2 / 3
    assert seen["request_goodput"] == 2 / 0.090
    assert seen["output_goodput"] == 2 / 0.090
    table = request_table(short_answers())
    assert table["ttft_ms"].tolist()[:2] == table["e2el_ms"].tolist()[:2] == [50.0, 50.0]
    assert table["tpot_ms"].tolist() == [None, None, 20.0]


def test_only_one_token_answers_have_no_tpot_at_all() -> None:
    seen = summary_of(one_at_a_time(np.array([0, 5]) * MS, np.array([10, 10]) * MS))
    for name in ("tpot_ms", "itl_ms", "itl_per_request_ms"):
        assert seen[name]["n"] == 0
        assert seen[name]["mean"] is seen[name]["p99"] is None
        assert not seen[name]["p99_few_samples"]


def test_limits_are_inclusive_and_goodput_needs_all_of_them() -> None:
    met = Slo(ttft_ms=100, tpot_ms=100 / 3, e2el_ms=200, itl_max_ms=80)
    assert summary_of(one_request(), slo=met)["goodput_fraction"] == 1
    missed = summary_of(one_request(), slo=replace(met, itl_max_ms=79.9))
    assert missed["goodput_fraction"] == 0
    assert missed["request_goodput"] == 0
    rates = {name: limit["pass_rate"] for name, limit in missed["slo"].items()}
    assert rates == {"ttft_ms": 1, "tpot_ms": 1, "e2el_ms": 1, "itl_max_ms": 0}


def test_without_limits_there_is_no_goodput() -> None:
    seen = summary_of(one_request())
    assert seen["slo"] is seen["request_goodput"] is seen["goodput_fraction"] is None


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf")])
def test_impossible_limits_are_refused_by_name(limit: float) -> None:
    with pytest.raises(ConfigError, match="tpot_ms"):
        Slo(tpot_ms=limit)


def test_rejected_requests_are_in_counts_and_in_the_goodput_denominator_only() -> None:
    requests = [Asked(0, 2000, 1, reason="exceeds_kv_capacity"), Asked(1, 100, 1)]
    seen = summary_of(result_of(requests, [Step(1, 11, prefill={1: 100})]), slo=Slo(ttft_ms=10))
    assert (seen["rows_in"], seen["submitted"], seen["finished"], seen["rejected"]) == (2, 2, 1, 1)
    assert seen["rejected_by_reason"] == {"exceeds_kv_capacity": 1}
    assert seen["goodput_fraction"] == 0.5
    assert seen["ttft_ms"]["n"] == 1


def test_a_stop_time_leaves_requests_unfinished_and_not_arrived() -> None:
    """Three tokens of the first request appear before the stop at 40; duration is 40."""
    requests = [Asked(0, 10, 9), Asked(35, 10, 1), Asked(50, 10, 1)]
    steps = [Step(0, 10, {0: 10}), Step(10, 20, decode=(0,)), Step(20, 30, decode=(0,))]
    seen = summary_of(result_of(requests, steps, stop_ms=40))
    counts = {name: seen[name] for name in ("submitted", "finished", "unfinished", "not_arrived")}
    assert counts == {"submitted": 2, "finished": 0, "unfinished": 2, "not_arrived": 1}
    assert seen["duration_s"] == 0.040
    assert seen["emitted_token_rate"] == 3 / 0.040
    assert seen["output_throughput"] == 0
    assert seen["e2el_ms"]["n"] == 0
    assert seen["in_system"]["mean"] == (40 + 5) / 40
    assert (seen["waiting"]["mean"], seen["waiting"]["max"]) == (5 / 40, 1)


def test_dropped_and_filtered_rows_complete_the_count() -> None:
    dropped = {"failed": 2, "bad number": 1}
    result = result_of([Asked(0, 8, 1)], [Step(0, 5, {0: 8})], dropped=dropped, rows_in=6)
    seen = summary_of(result)
    assert (seen["rows_in"], seen["dropped"], seen["filtered"]) == (6, 3, 2)
    assert list(seen["dropped_by_reason"]) == ["bad number", "failed"]


def test_dispatch_delay_adds_numbers_from_the_schedule() -> None:
    held = result_of([Asked(30, 8, 1, held_ms=12)], [Step(30, 40, {0: 8})])
    seen = summary_of(held)
    assert only_value(seen["dispatch_ms"]) == 12
    assert only_value(seen["ttft_ms"]) == 10
    assert only_value(seen["ttft_from_schedule_ms"]) == 22
    assert only_value(seen["e2el_from_schedule_ms"]) == 22
    assert summary_of(one_request())["ttft_from_schedule_ms"]["n"] == 0


def test_overload_is_said_aloud() -> None:
    """Service 10, arrivals every 8: waits 0, 2, ... 1,998; 100/s done of 125/s offered."""
    seen = summary_of(one_at_a_time(np.arange(1000) * 8 * MS, np.full(1000, 10 * MS)))
    assert (seen["queue_ms"]["mean"], seen["queue_ms"]["max"]) == (999, 1998)
    assert seen["duration_s"] == 10
    assert seen["request_throughput"] == seen["achieved_rate"] == 100
    assert seen["offered_rate"] == 125
    assert seen["saturated"]
    assert "queue keeps growing" in seen["saturation"]["reason"]


def test_a_single_instant_has_no_rates() -> None:
    refused = result_of([Asked(5, 9999, 1, reason="exceeds_kv_capacity")], [], stop_ms=None)
    seen = summary_of(refused, slo=Slo(ttft_ms=1))
    for name in ("request_throughput", "emitted_token_rate", "offered_rate", "kv_util_mean"):
        assert seen[name] is None
    assert seen["goodput_fraction"] == 0
    assert seen["preempted_share"] is None


def test_nothing_arrived_before_the_stop() -> None:
    seen = summary_of(result_of([Asked(50, 8, 1)], [], stop_ms=10))
    assert seen["duration_s"] is None
    assert (seen["submitted"], seen["not_arrived"]) == (0, 1)


def test_weights_of_no_service_are_refused() -> None:
    for weights in ((0.0, 0.0), (-1.0, 2.0), (float("nan"), 1.0)):
        with pytest.raises(ConfigError, match="service_weights"):
            summarize(one_request(), service_weights=weights)
