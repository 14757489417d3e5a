"""The metrics of hand-made runs, worked out by hand. Times in ms."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.metrics import summarize
from simulator.result import Result, State
from simulator.tables import request_table, step_table
from simulator.timings import Slo
from simulator.window import Trim, Window
from tests.simulator.results import Asked, Evicted, Step, one_at_a_time, result_of

MS = 1_000_000


def one_request() -> Result:
    """Arrival 0, first scheduled at 20, tokens at 100, 110, 120, 200."""
    steps = [
        Step(20, 100, prefill={0: 40}),
        Step(100, 110, decode=(0,)),
        Step(110, 120, decode=(0,)),
        Step(190, 200, decode=(0,)),
    ]
    return result_of([Asked(0, 40, 4)], steps)


def preempted() -> Result:
    """Scheduled 30, tokens at 100, 110, 120; evicted at 120, back at 300, tokens at 360, 370."""
    steps = [
        Step(30, 100, prefill={0: 40}),
        Step(100, 110, decode=(0,)),
        Step(110, 120, decode=(0,)),
        Step(300, 360, prefill={0: 43}),
        Step(360, 370, decode=(0,)),
    ]
    return result_of([Asked(0, 40, 5)], steps, [Evicted(0, 120, 300, 42)])


def two_paces() -> Result:
    """A: 2 tokens 100 apart. B: 11 tokens 10 apart, meanwhile."""
    steps = [Step(0, 10, prefill={0: 10, 1: 10})]
    steps += [Step(10 * k, 10 * k + 10, decode=(1,)) for k in range(1, 10)]
    steps += [Step(100, 110, decode=(0, 1))]
    return result_of([Asked(0, 10, 2), Asked(0, 10, 11)], steps)


def short_answers() -> Result:
    """Outputs 1, 1 and 3; the third has tokens at 50, 60, 90."""
    steps = [
        Step(0, 50, prefill={0: 8, 1: 8, 2: 8}),
        Step(50, 60, decode=(2,)),
        Step(60, 90, decode=(2,)),
    ]
    return result_of([Asked(0, 8, 1), Asked(0, 8, 1), Asked(0, 8, 3)], steps)


def summary_of(result: Result, **options: Any) -> dict[str, Any]:
    """The summary, after it has been through a strict JSON writer and parser."""
    return json.loads(json.dumps(summarize(result, **options), allow_nan=False))


def only_value(distribution: dict[str, Any]) -> float:
    """The value of a distribution of one sample."""
    assert distribution["n"] == 1
    assert distribution["min"] == distribution["mean"] == distribution["max"]
    return distribution["mean"]


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


def test_requests_in_system_and_their_times_agree() -> None:
    """Service 15, arrivals 0, 10, 20: E2E 15, 20, 25; area 60 over 45 ms; 60 / 45 in system."""
    seen = summary_of(one_at_a_time(np.array([0, 10, 20]) * MS, np.full(3, 15 * MS)))
    assert (seen["e2el_ms"]["min"], seen["e2el_ms"]["p50"], seen["e2el_ms"]["max"]) == (15, 20, 25)
    assert seen["in_system"] == {"mean": 60 / 45, "max": 2}
    little = seen["request_throughput"] * seen["e2el_ms"]["mean"] / 1e3
    assert seen["in_system"]["mean"] == pytest.approx(little, rel=1e-12)
    assert seen["engine_busy"] == 1
    assert not seen["saturated"]


def test_overload_is_said_aloud() -> None:
    """Service 10, arrivals every 8: waits 0, 2, ... 1,998; 100/s done of 125/s offered."""
    seen = summary_of(one_at_a_time(np.arange(1000) * 8 * MS, np.full(1000, 10 * MS)))
    assert (seen["queue_ms"]["mean"], seen["queue_ms"]["max"]) == (999, 1998)
    assert seen["duration_s"] == 10
    assert seen["request_throughput"] == seen["achieved_rate"] == 100
    assert seen["offered_rate"] == 125
    assert seen["saturated"]
    assert "queue keeps growing" in seen["saturation"]["reason"]


def test_cache_use_is_weighted_by_time() -> None:
    """64 blocks; 2 used for 10, 4 for 5, none for 5: mean 40 / 1280, peak 4 / 64."""
    requests = [Asked(0, 20, 2), Asked(20, 5, 1, reason="exceeds_model_len")]
    steps = [Step(0, 10, {0: 20}, blocks=2), Step(10, 15, decode=(0,), blocks=4)]
    seen = summary_of(result_of(requests, steps), window=Window(0, 20 * MS))
    assert seen["kv_util_mean"] == 0.03125
    assert seen["kv_util_peak"] == 0.0625
    assert seen["engine_busy"] == 0.75
    assert seen["running"] == {"mean": 0.75, "max": 1}


def test_stored_tokens_are_those_whose_entries_exist() -> None:
    """40 tokens from 100, 41 from 110, none from 120; 43 from 360 until all leave at 370."""
    seen = summary_of(preempted())
    capacity = 64 * 16
    area = 40 * 10 + 41 * 10 + 43 * 10
    assert seen["kv_token_util"] == area / (capacity * 370)
    part = summary_of(preempted(), window=Window(105 * MS, 365 * MS))
    area = 40 * 5 + 41 * 10 + 43 * 5
    assert part["kv_token_util"] == area / (capacity * 260)


def test_steps_are_described() -> None:
    seen = summary_of(two_paces())
    assert (seen["step_ms"]["n"], seen["step_ms"]["mean"]) == (11, 10)
    assert (seen["batch_size"]["max"], seen["batch_size"]["mean"]) == (2, (2 + 9 + 2) / 11)
    assert seen["step_tokens"]["max"] == 20
    assert seen["step_tokens"]["mean"] == (20 + 9 + 2) / 11


def test_a_window_selects_latencies_by_arrival_and_rates_by_event() -> None:
    """Of arrivals 0, 10, 20 (service 15, finishes 15, 30, 45) the window [10, 30) has two; it
    sees one finish, at 15."""
    served = one_at_a_time(np.array([0, 10, 20]) * MS, np.full(3, 15 * MS))
    seen = summary_of(served, window=Window(10 * MS, 30 * MS), slo=Slo(e2el_ms=20))
    assert seen["duration_s"] == 0.020
    assert (seen["e2el_ms"]["n"], seen["e2el_ms"]["min"], seen["e2el_ms"]["max"]) == (2, 20, 25)
    assert seen["request_throughput"] == seen["achieved_rate"] == 1 / 0.020
    assert seen["offered_rate"] == 2 / 0.020
    assert seen["emitted_token_rate"] == 1 / 0.020
    assert seen["request_goodput"] == 1 / 0.020
    assert seen["goodput_fraction"] == 0.5
    assert seen["engine_busy"] == 1
    assert seen["in_system"]["mean"] == (5 + 20 + 10) / 20
    assert seen["window"]["submitted"] == seen["window"]["finished"] == 2
    assert seen["submitted"] == 3


def test_gaps_of_a_window_are_those_of_the_requests_that_arrived_in_it() -> None:
    steps = [Step(0, 10, {0: 8}), Step(10, 40, {1: 8}, decode=(0,)), Step(40, 60, decode=(0, 1))]
    result = result_of([Asked(0, 8, 3), Asked(5, 8, 2)], steps)
    assert summary_of(result)["itl_ms"]["n"] == 3
    late = summary_of(result, window=Window(5 * MS, 60 * MS))
    assert only_value(late["itl_ms"]) == 20
    by_hand = summary_of(replace(result, pieces=None), window=Window(0, 5 * MS))["itl_ms"]
    assert (by_hand["n"], by_hand["mean"], by_hand["max"]) == (2, 25, 30)
    assert by_hand["p99"] is None


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


def test_request_table_has_one_row_per_request_and_masks_what_never_happened() -> None:
    requests = [Asked(0, 10, 9), Asked(35, 10, 1), Asked(50, 10, 1)]
    steps = [Step(0, 10, {0: 10}), Step(10, 20, decode=(0,))]
    table = request_table(result_of(requests, steps, stop_ms=40, ids=("a", "b", "c")))
    assert table["id"].tolist() == ["a", "b", "c"]
    assert table["state"].tolist() == ["unfinished", "unfinished", "not_arrived"]
    assert table["arrival_s"].tolist() == [0.0, 0.035, None]
    assert table["ttft_ms"].tolist() == [10.0, None, None]
    assert table["e2el_ms"].tolist() == [None, None, None]
    assert table["worst_itl_ms"].tolist() == [10.0, None, None]
    assert table["active_ms"].tolist() == [20.0, None, None]
    assert table["emitted_tokens"].tolist() == [2, 0, 0]


def test_tables_are_readable_by_pyarrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {name: pyarrow.array(column) for name, column in request_table(preempted()).items()}
    assert columns["worst_itl_ms"].to_pylist() == [240.0]
    assert columns["reason"].to_pylist() == [None]
    steps = step_table(preempted())
    assert steps["end_s"].tolist() == [0.1, 0.11, 0.12, 0.36, 0.37]
    assert steps["emitted_tokens"].sum() == 5
    one_token = request_table(one_at_a_time(np.array([0]), np.array([MS])))
    assert pyarrow.array(one_token["tpot_ms"]).null_count == 1


def test_states_have_names_in_the_table() -> None:
    assert [state.name.lower() for state in State] == [
        "finished",
        "rejected",
        "unfinished",
        "not_arrived",
    ]


def test_default_window_is_stated() -> None:
    window = summary_of(one_request())["window"]
    assert (window["start_s"], window["end_s"]) == (0.0, 0.2)
    assert not any(window[name] for name in window if name.startswith(("warmup", "cooldown")))
    trimmed = summary_of(one_request(), window=Trim(cooldown_s=0.05))["window"]
    assert (trimmed["end_s"], trimmed["cooldown_s"]) == (0.15, 0.05)
