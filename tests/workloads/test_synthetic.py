"""`generate`, presets and the bundled workload."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import WorkloadError
from simulator.trace import Trace
from workloads import (
    ARRIVALS,
    BUNDLED,
    PRESETS,
    bundled_trace,
    generate,
    generate_bundled,
    preset,
    write_trace,
)
from workloads.bundle import bundled_path

Identical = Callable[[Trace, Trace], None]

RATES = {"poisson": 8, "gamma": 8, "constant": 8, "on-off": 8, "all-at-once": None}


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_every_arrival_process_generates_and_repeats(arrival: str, identical: Identical) -> None:
    bursts = {"on_s": 1.0, "off_s": 2.0} if arrival == "on-off" else {}
    one, two = (
        generate(
            requests=300,
            rate=RATES[arrival],
            arrival=arrival,
            prompt="uniform:1:99",
            output="lognormal:20:1",
            seed=6,
            **bursts,
        )
        for _ in range(2)
    )
    identical(one, two)
    assert len(one) == one.rows_in == 300


def test_the_note_holds_every_setting() -> None:
    trace = generate(
        requests=3,
        rate=0.1,
        arrival="gamma",
        burstiness=0.5,
        prompt=7,
        output="uniform:1:2",
        seed=9,
    )
    assert trace.notes == (
        "generated: requests=3, arrival=gamma, rate=0.1, burstiness=0.5, prompt=fixed:7, "
        "output=uniform:1:2, seed=9",
    )


def test_lengths_stay_when_the_rate_or_the_process_changes() -> None:
    settings = {"requests": 100, "prompt": "uniform:1:999", "output": "uniform:1:99", "seed": 2}
    slow, fast = generate(rate=1, **settings), generate(rate=9, arrival="constant", **settings)  # type: ignore[arg-type]
    np.testing.assert_array_equal(slow.prompt_tokens, fast.prompt_tokens)
    np.testing.assert_array_equal(slow.output_tokens, fast.output_tokens)
    assert not np.array_equal(slow.prompt_tokens % 99, slow.output_tokens % 99)


def test_a_closed_loop_is_think_times_and_no_arrivals() -> None:
    trace = generate(requests=5, users=2, think_time_s=1.5, prompt=10, output=2)
    assert trace.arrival_ns.tolist() == [0] * 5
    assert trace.think_ns is not None
    assert trace.think_ns.tolist() == [0, 0, 1_500_000_000, 1_500_000_000, 1_500_000_000]
    assert "users=2, think_time_s=1.5, think=fixed" in trace.notes[0]


def test_exponential_think_times_have_their_mean() -> None:
    trace = generate(
        requests=50_000, users=1, think_time_s=2, think="exponential", prompt=1, output=1, seed=1
    )
    assert trace.think_ns is not None
    assert trace.think_ns.mean() / 1e9 == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"requests": 0, "rate": 1}, "requests 0 must be"),
        ({}, "arrival poisson needs a rate"),
        ({"rate": 1, "arrival": "posson"}, "did you mean poisson"),
        ({"rate": 1, "burstiness": 0.5}, "burstiness 0.5 needs arrival gamma, not poisson"),
        ({"rate": 1, "arrival": "gamma", "burstiness": float("nan")}, "burstiness nan"),
        ({"rate": 1, "arrival": "on-off", "on_s": 1.0}, "needs on_s and off_s"),
        ({"rate": 1, "on_s": 1.0}, "on_s and off_s are for arrival on-off"),
        ({"rate": 1, "arrival": "all-at-once"}, "rate 1 means nothing for all-at-once"),
        ({"rate": 1, "users": 2}, "users make a closed loop"),
        ({"users": 0}, "users 0 must be"),
        ({"users": 1, "think_time_s": -1.0}, "think_time_s -1.0 must be"),
        ({"users": 1, "think": "slow"}, "think 'slow' must be"),
        ({"rate": 1, "think_time_s": 1.0}, "give users too"),
        ({"rate": 1, "seed": -3}, "seed -3 must be"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, object], reason: str
) -> None:
    with pytest.raises(WorkloadError, match=reason):
        generate(**{"requests": 5, "prompt": 10, "output": 2, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_generates_says_where_it_is_from_and_has_an_slo(
    name: str, identical: Identical
) -> None:
    trace = preset(name, requests=200, seed=3)
    identical(trace, preset(name, requests=200, seed=3))
    assert trace.notes[0] == f"preset {name}"
    chosen = PRESETS[name]
    assert 0 < chosen.tpot_ms < chosen.ttft_ms
    assert "assumption" in chosen.origin or "matched" in chosen.origin


def test_the_chat_preset_has_the_percentiles_its_origin_names() -> None:
    trace = preset("chat", requests=50_000, seed=1)
    assert np.percentile(trace.prompt_tokens, [50, 90]) == pytest.approx([1020, 2734], rel=0.02)
    assert np.percentile(trace.output_tokens, [50, 90]) == pytest.approx([129, 424], rel=0.02)
    gaps = np.diff(trace.arrival_ns)
    assert gaps.std() / gaps.mean() == pytest.approx(1.09, rel=0.02)


def test_documents_are_a_batch_until_they_are_given_a_rate() -> None:
    assert preset("documents", requests=5).arrival_ns.tolist() == [0] * 5
    assert "arrival=poisson, rate=2" in preset("documents", requests=5, rate=2).notes[1]


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(WorkloadError, match=r"'chatt', did you mean chat\?"):
        preset("chatt", requests=1)
    with pytest.raises(WorkloadError, match="did you mean chat-and-documents"):
        bundled_trace("chat-and-document")


@pytest.mark.parametrize("name", BUNDLED)
def test_the_bundled_file_is_what_its_generator_writes_byte_for_byte(
    name: str, tmp_path: Path, identical: Identical
) -> None:
    again = tmp_path / "again.csv"
    write_trace(generate_bundled(name), again)
    assert again.read_bytes() == bundled_path(name).read_bytes()
    assert again.stat().st_size < 60_000
    identical(bundled_trace(name), generate_bundled(name))


def test_the_bundled_workload_mixes_chat_with_long_documents() -> None:
    trace = bundled_trace()
    assert len(trace) == 600
    assert trace.client is not None
    documents = np.array([client == "documents" for client in trace.client])
    assert int(documents.sum()) == 60
    assert trace.prompt_tokens[documents].min() >= 4096 >= trace.prompt_tokens[~documents].max()
