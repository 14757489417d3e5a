"""Cache, engine and queue, weighted by time. Times in ms."""

import numpy as np
import pytest

from simulator.window import Window
from tests.simulator.results import Asked, Step, result_of
from tests.simulator.runs import (
    preempted,
    summary_of,
    two_paces,
)
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000


def test_requests_in_system_and_their_times_agree() -> None:
    """Service 15, arrivals 0, 10, 20: E2E 15, 20, 25; area 60 over 45 ms; 60 / 45 in system."""
    seen = summary_of(one_at_a_time(np.array([0, 10, 20]) * MS, np.full(3, 15 * MS)))
    assert (seen["e2el_ms"]["min"], seen["e2el_ms"]["p50"], seen["e2el_ms"]["max"]) == (15, 20, 25)
    assert seen["in_system"] == {"mean": 60 / 45, "max": 2}
    little = seen["request_throughput"] * seen["e2el_ms"]["mean"] / 1e3
    assert seen["in_system"]["mean"] == pytest.approx(little, rel=1e-12)
    assert seen["engine_busy"] == 1
    assert not seen["saturated"]


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
