"""A config becomes a trace: one source, then transforms in a fixed order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.config import RunConfig
from experiments.run import prepare
from experiments.workload import build_workload
from simulator.errors import ConfigError, WorkloadError

TraceOf = Callable[..., Path]


def arrivals_s(**fields: object) -> list[float]:
    return (build_workload(RunConfig(**fields)).trace.arrival_ns / 1e9).tolist()


def test_a_rate_rescales_a_trace_to_that_mean(trace_of: TraceOf) -> None:
    """Gaps 1 and 3 at mean rate 0.5 become 0.25 and 0.75 at mean rate 2."""
    trace = str(trace_of((0, 8, 1), (1, 8, 1), (4, 8, 1)))
    assert arrivals_s(trace=trace, rate=2) == [0, 0.25, 1.0]


def test_rows_are_chosen_before_arrivals_move(trace_of: TraceOf) -> None:
    trace = str(trace_of((0, 8, 1), (10, 8, 1), (12, 800, 1), (14, 8, 1), (99, 8, 1)))
    fields = {"trace": trace, "window_s": "10:50", "max_prompt_tokens": 100, "time_scale": 0.5}
    assert arrivals_s(**fields) == [0, 2]
    assert arrivals_s(**fields, head=1) == [0]


def test_every_transform_leaves_a_note(trace_of: TraceOf) -> None:
    trace = str(trace_of((0, 8, 1), (1, 8, 1), (4, 8, 1)))
    config = RunConfig(trace=trace, head=2, time_scale=2, rate_scale=4, rate=8)
    assert build_workload(config).trace.notes[-4:] == (
        "first 2 requests: 2 of 3 requests kept",
        "arrivals scaled by 2",
        "rate scaled by 4",
        "mean rate set to 8 requests/s",
    )


def test_a_trace_can_be_served_to_a_closed_loop(trace_of: TraceOf) -> None:
    trace = str(trace_of((0, 8, 1), (1, 8, 1), (4, 8, 1)))
    built = build_workload(RunConfig(trace=trace, users=2, think_time_s=0.5)).trace
    assert built.arrival_ns.tolist() == [0, 0, 0]
    assert built.think_ns is not None
    assert built.think_ns.tolist() == [0, 0, 500_000_000]


def test_a_file_of_lengths_gets_the_arrivals_of_the_generator(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n10,1\n20,2\n30,3\n", encoding="utf-8")
    assert arrivals_s(trace=str(path)) == [0, 0, 0]
    assert arrivals_s(trace=str(path), rate=8, arrival="constant") == [0.125, 0.25, 0.375]
    built = build_workload(RunConfig(trace=str(path), rate=8, seed=3)).trace
    fields = {"requests": 3, "rate": 8, "seed": 3}
    assert (
        built.arrival_ns.tolist() == build_workload(RunConfig(**fields)).trace.arrival_ns.tolist()
    )
    assert built.prompt_tokens.tolist() == [10, 20, 30]
    assert built.notes[-1] == "arrivals generated: arrival=poisson, rate=8, seed=3"


def test_a_trace_with_times_takes_no_arrival_process(trace_of: TraceOf) -> None:
    trace = str(trace_of((0, 8, 1), (1, 8, 1)))
    for fields in ({"arrival": "poisson", "rate": 2}, {"burstiness": 2}):
        with pytest.raises(ConfigError, match="has its own: drop it, or change their mean rate"):
            build_workload(RunConfig(trace=trace, **fields))
    with pytest.raises(ConfigError, match="closed loop, which has no --arrival"):
        build_workload(RunConfig(trace=trace, arrival="poisson", users=2))


def test_burstiness_alone_means_gamma_gaps() -> None:
    assert arrivals_s(requests=3, rate=8, burstiness="inf") == [0.125, 0.25, 0.375]


def test_a_presets_limits_are_the_default_slo() -> None:
    config = RunConfig(preset="voice", requests=5, cost_model="lesson", kv_blocks=1000)
    assert prepare(config).config.slo == {"ttft_ms": 200.0, "tpot_ms": 50.0}
    mine = config.model_copy(update={"slo": {"ttft_ms": 1.0}})
    assert prepare(mine).config.slo == {"ttft_ms": 1.0}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "no workload: give --trace FILE"),
        ({"trace": "a", "preset": "chat"}, "--trace and --preset both name a workload: give one"),
        ({"preset": "chat", "arrival": "poisson"}, "--arrival means nothing with --preset"),
        ({"workload": "bundled", "format": "azure"}, "--format means nothing with --workload"),
        ({"workload": "bundled", "users": 2, "rate": 3}, "closed loop, which has no --rate"),
    ],
)
def test_settings_that_contradict_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        build_workload(RunConfig(**fields))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"preset": "chta"}, "did you mean chat"),
        ({"workload": "bundeld"}, "did you mean bundled"),
        ({"workload": "chat-and-document"}, "did you mean chat-and-documents"),
        ({"requests": 5}, "needs a rate"),
        ({"requests": 5, "rate": 1, "input_tokens": "fxed:3"}, "did you mean fixed"),
    ],
)
def test_misspelt_names_get_the_nearest(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(WorkloadError, match=problem):
        build_workload(RunConfig(**fields))
