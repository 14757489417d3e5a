"""Service of clients: who got what, and how far apart two can drift while both wait."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import ConstantCostModel
from simulator import ChunkedPrefillScheduler, ConfigError, KVCache, Trace, simulate
from simulator.fairness import jain
from simulator.metrics import summarize
from simulator.result import Result
from simulator.service import ServiceCurves
from simulator.timings import Slo
from simulator.window import Window
from tests.simulator.results import Asked, Evicted, Step, result_of
from tests.timeline import asked

MS = 1_000_000


def fairness_of(result: Result, **options: Any) -> dict[str, Any]:
    return json.loads(json.dumps(summarize(result, **options), allow_nan=False))["fairness"]


def three_clients() -> Result:
    """Served 1000 in and 100 out, 200 in and 500 out, 400 in and 100 out of the 200 it wanted."""
    requests = [Asked(0, 1000, 100, "a"), Asked(0, 200, 500, "b"), Asked(0, 400, 200, "c")]
    steps = [Step(0, 10, {0: 1000, 1: 200, 2: 400})]
    steps += [Step(k * 10, k * 10 + 10, decode=(0, 1, 2)) for k in range(1, 100)]
    steps += [Step(k * 10, k * 10 + 10, decode=(1,)) for k in range(100, 500)]
    return result_of(requests, steps, stop_ms=5000)


def taking_turns(order: str) -> Result:
    """One at a time; each letter is a request of that client: 10 in, 1 out, 10 ms; all at 0."""
    requests = [Asked(0, 10, 1, client) for client in order]
    steps = [Step(10 * k, 10 * k + 10, {k: 10}) for k in range(len(order))]
    return result_of(requests, steps)


def test_jain_of_equal_and_of_lopsided_shares() -> None:
    assert jain([1200, 1200, 600]) == pytest.approx(0.9259, abs=5e-5)
    assert jain([7.0]) == 1
    assert jain([3, 3, 3, 3]) == 1
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([0, 0]) is jain([]) is None


def test_service_weighs_prompt_and_output_tokens() -> None:
    """1000 + 2 x 100, 200 + 2 x 500, 400 + 2 x 100."""
    seen = fairness_of(three_clients())
    assert [client["client"] for client in seen["clients"]] == ["a", "b", "c"]
    assert [client["service"] for client in seen["clients"]] == [1200, 1200, 600]
    assert [client["demand"] for client in seen["clients"]] == [1200, 1200, 800]
    assert [client["service_per_demand"] for client in seen["clients"]] == [1, 1, 0.75]
    assert seen["jain"]["service"] == 3000**2 / (3 * 3_240_000)
    assert seen["jain"]["service_per_demand"] == 2.75**2 / (3 * 2.5625)
    assert seen["service_gap_end"] == 600


def test_weights_are_configurable() -> None:
    seen = fairness_of(three_clients(), service_weights=(0.0, 1.0))
    assert [client["service"] for client in seen["clients"]] == [100, 500, 100]


def test_without_clients_there_is_no_fairness() -> None:
    assert fairness_of(result_of([Asked(0, 8, 1)], [Step(0, 5, {0: 8})])) is None


def test_requests_without_a_client_are_left_out() -> None:
    requests = [Asked(0, 8, 1, "a"), Asked(0, 8, 1)]
    seen = fairness_of(result_of(requests, [Step(0, 5, {0: 8, 1: 8})]))
    assert [client["client"] for client in seen["clients"]] == ["a"]
    assert seen["jain"] == {"service": 1, "service_per_demand": 1}


def test_each_client_has_its_own_latencies_and_goodput() -> None:
    clients = fairness_of(taking_turns("aab"), slo=Slo(ttft_ms=25))["clients"]
    assert [client["ttft_ms"]["mean"] for client in clients] == [15, 30]
    assert [client["goodput_fraction"] for client in clients] == [1, 0]
    assert [client["request_goodput"] for client in clients] == [2 / 0.030, 0]


def test_gap_grows_while_both_wait() -> None:
    """Each request is 12 of service. Six of `a` before `b` has any, but when the sixth starts
    `a` no longer waits: five are done by then."""
    seen = fairness_of(taking_turns("aaaaaabb"))
    assert seen["max_service_gap"] == 5 * 12
    assert seen["service_gap_end"] == 4 * 12


def test_gap_of_strict_alternation_is_one_request() -> None:
    assert fairness_of(taking_turns("abababab"))["max_service_gap"] == 12


def test_gap_does_not_count_clients_that_ask_for_nothing() -> None:
    """`b` comes when `a` is done: no instant at which both wait."""
    requests = [Asked(0, 10, 1, "a"), Asked(0, 10, 1, "a"), Asked(50, 10, 1, "b")]
    steps = [Step(0, 10, {0: 10}), Step(10, 20, {1: 10}), Step(50, 60, {2: 10})]
    seen = fairness_of(result_of(requests, steps))
    assert seen["max_service_gap"] is None
    assert "waiting at the same time" in seen["max_service_gap_absent"]


def test_gap_starts_anew_when_a_queue_ran_empty() -> None:
    """Two stretches in which both wait, each 12 apart; 24 apart only across the pause."""
    requests = [
        *(Asked(0, 10, 1, client) for client in "aab"),
        *(Asked(100, 10, 1, client) for client in "aab"),
    ]
    steps = [Step(start + 10 * k, start + 10 * k + 10) for start in (0, 100) for k in range(3)]
    steps = [replace(step, prefill={row: 10}) for row, step in enumerate(steps)]
    assert fairness_of(result_of(requests, steps))["max_service_gap"] == 12


def test_output_tokens_count_when_they_are_produced() -> None:
    """`a` decodes alone from 10 to 40 (2 each) while both clients wait: 10 + 2 x 4."""
    requests = [Asked(0, 10, 4, "a"), Asked(0, 10, 1, "a"), Asked(0, 10, 1, "b")]
    steps = [Step(0, 10, {0: 10})]
    steps += [Step(10 * k, 10 * k + 10, decode=(0,)) for k in (1, 2, 3)]
    steps += [Step(40, 50, {1: 10, 2: 10})]
    assert fairness_of(result_of(requests, steps))["max_service_gap"] == 18


def test_service_in_a_window_counts_what_was_produced_in_it() -> None:
    """[10, 30) sees the prompt end at 10 and one decode at 20, not the one at 30."""
    requests = [Asked(0, 10, 3, "a")]
    steps = [Step(0, 10, {0: 10}), Step(10, 20, decode=(0,)), Step(20, 30, decode=(0,))]
    result = result_of(requests, steps)
    inside = fairness_of(result, window=Window(10 * MS, 30 * MS))["clients"][0]
    assert inside["service"] == 10 + 2 * 2
    assert inside["demand"] == 0
    assert fairness_of(result, window=Window(20 * MS, 31 * MS))["clients"][0]["service"] == 4


def test_recomputed_prompts_are_no_service() -> None:
    requests = [Asked(0, 10, 3, "a")]
    steps = [Step(0, 10, {0: 10}), Step(10, 20, decode=(0,)), Step(30, 40, {0: 12})]
    result = result_of(requests, steps, [Evicted(0, 20, 30, 11)])
    assert fairness_of(result)["clients"][0]["service"] == 10 + 2 * 3
    curves = ServiceCurves(result, np.array([0]), (1.0, 2.0))
    times = np.array([9, 10, 20, 39, 40]) * MS
    assert curves.of(0, times).tolist() == [0, 12, 14, 14, 16]


def test_token_times_are_needed_for_gaps() -> None:
    by_hand = replace(taking_turns("ab"), pieces=None)
    assert fairness_of(by_hand)["max_service_gap"] is None
    with pytest.raises(ValueError, match="no token times"):
        ServiceCurves(by_hand, np.array([0, 0]), (1.0, 2.0))


def test_curves_end_at_the_service_of_the_whole_run() -> None:
    """With preemptions and recomputation."""
    rng = np.random.default_rng(5)
    clients = tuple(rng.choice(["a", "b"], 40).tolist())
    arrivals = np.sort(rng.integers(0, 1_000 * MS, 40))
    trace = Trace(arrivals, rng.integers(1, 300, 40), rng.integers(1, 40, 40), client=clients)
    prices = ConstantCostModel(prefill_ms=30, decode_ms=8)
    result = simulate(trace, ChunkedPrefillScheduler(), prices, KVCache(24))
    assert result.requests.preemptions.sum() > 0
    seen = [client["service"] for client in fairness_of(result)["clients"]]
    codes = np.array([ord(client) - ord("a") for client in clients])
    curves = ServiceCurves(result, codes, (1.0, 2.0))
    assert seen == [curves.of(code, np.array([result.end_ns]))[0] for code in (0, 1)]


@given(st.text(alphabet="abc", min_size=1, max_size=12))
def test_gap_equals_the_one_found_by_trying_every_interval(order: str) -> None:
    """Service and queues change only every 10 ms here, so all intervals can be tried."""
    seen = fairness_of(taking_turns(order))["max_service_gap"]
    done = {c: [12 * order[:k].count(c) for k in range(len(order) + 1)] for c in order}
    waits = {c: [c in order[k + 1 :] for k in range(len(order) + 1)] for c in order}
    gaps = [
        abs((done[f][end] - done[f][start]) - (done[g][end] - done[g][start]))
        for f in done
        for g in done
        if f < g
        for start in range(len(order))
        for end in range(start + 1, len(order) + 1)
        if all(waits[f][start:end]) and all(waits[g][start:end])
    ]
    assert seen == (max(gaps) if gaps else None)


def test_a_client_with_limits_of_its_own_is_judged_by_these() -> None:
    """TTFT 10 each (a), 20 (b): both within 25, b not within its own 15."""
    trace = asked((0, 8, 1), (0, 8, 1), client=("a", "b"))
    result = simulate(trace, ChunkedPrefillScheduler(8, 1), ConstantCostModel(10, 2), KVCache(64))

    told = summarize(result, slo=Slo(ttft_ms=25), client_slo={"b": Slo(ttft_ms=15)})

    a, b = told["fairness"]["clients"]
    assert (a["slo"], a["goodput_fraction"]) == ({"ttft_ms": 25}, 1)
    assert (b["slo"], b["goodput_fraction"]) == ({"ttft_ms": 15}, 0)
    assert told["goodput_fraction"] == 1
    with pytest.raises(ConfigError, match="client_slo names 'c', which sends nothing"):
        summarize(result, client_slo={"c": Slo(ttft_ms=15)})
