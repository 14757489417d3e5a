"""The parts of a search: brackets, limits, knobs, flags, and how sure an answer is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.config import RunConfig
from experiments.run import run_config
from experiments.search import read_knobs, read_objective
from experiments.search.bracket import Bracket
from experiments.search.certainty import lead, of_blocks, of_seeds
from experiments.search.limits import measure
from experiments.search.vllm_flags import vllm_flags
from experiments.sweep.samples import Choice, Range
from simulator.errors import ConfigError


def run(bracket: Bracket, capacity: float) -> Bracket:
    """A bracket driven to its end."""
    while (rate := bracket.next_rate()) is not None:
        bracket.tell(rate, passed=rate <= capacity)
    return bracket


@given(st.floats(0.02, 900), st.floats(0.02, 900), st.floats(0.005, 0.3))
def test_a_bracket_closes_around_the_capacity(
    capacity: float, start: float, precision: float
) -> None:
    bracket = run(Bracket(start, precision, 0.01, 1000.0), capacity)
    assert bracket.passed is not None
    assert bracket.failed is not None
    assert bracket.passed <= capacity < bracket.failed
    assert bracket.failed / bracket.passed <= 1 + precision + 2e-3
    assert len(bracket.tried) < 40
    assert bracket.violations == []


def test_a_bracket_without_two_ends_stops_at_the_last_rate_allowed() -> None:
    low, high = run(Bracket(4.0, 0.01, 1.0, 64.0), 0.5), run(Bracket(4.0, 0.01, 1.0, 64.0), 1e9)
    assert (low.passed, low.failed) == (None, 1.0)
    assert (high.passed, high.failed) == (64.0, None)


def test_a_rate_that_passes_above_one_that_fails_is_a_violation() -> None:
    """Passed: 2, 4, 8; failed: 6, 9. The answer is 4: the highest below any failure."""
    bracket = Bracket(4.0, 0.5, 1.0, 100.0)
    for rate, passed in {4.0: True, 8.0: True, 9.0: False, 2.0: True, 6.0: False}.items():
        bracket.tell(rate, passed=passed)
    assert (bracket.passed, bracket.failed) == (4.0, 6.0)
    assert bracket.violations == [(6.0, 8.0)]


def test_limits_are_measured_as_reports_are(per_token: Path, trace_of: Callable[..., Path]) -> None:
    """Three requests, one at a time: 20, 30 and 40 ms of prefill; the last waits 10 ms.

    TTFT 20, 30, 50; TPOT 10, 10 and none, gaps 10 ms: 1 + 2.
    """
    trace = trace_of((0, 10, 2), (1, 20, 3), (2, 10, 1), (2.010, 30, 1))
    config = RunConfig(
        trace=str(trace), cost_model=str(per_token), kv_blocks=99, max_num_seqs=1,
        slo={"ttft": 30, "tpot": 10},
    )  # fmt: skip
    outcome = run_config(config)
    ttft = [20.0, 30.0, 20.0, 50.0]
    objective = read_objective(["ttft_max=50,ttft_mean=29,tpot_p99=10,itl_p50=9.9"])
    told = measure(outcome, objective)
    assert (told["ttft_max"].value, told["ttft_max"].share, told["ttft_max"].met) == (50, 1, True)
    assert told["ttft_mean"].value == sum(ttft) / 4
    assert (told["ttft_mean"].share, told["ttft_mean"].met) == (0.5, False)
    assert (told["tpot_p99"].value, told["tpot_p99"].met) == (10, True)
    assert (told["itl_p50"].value, told["itl_p50"].share) == (10, 0)
    # 30 ms and 10 ms: three of the four meet both, the one-token answers have no TPOT
    requests = measure(outcome, read_objective(["ttft=30,tpot=10"], 0.75))["requests"]
    assert (requests.share, requests.met) == (0.75, True)
    assert not measure(outcome, read_objective(["ttft=30,tpot=10"], 0.76))["requests"].met


def test_limits_are_read_with_units_and_mistakes_are_named() -> None:
    told = read_objective(["ttft_p99=0.5s", "tpot=50,itl_max=1s"], 0.9)
    assert (
        told.words()
        == "ttft p99 <= 500 ms, 90 % of requests with tpot <= 50 ms, itl_max <= 1000 ms"
    )
    for text, message in {
        "ttft_p98=1": "no limit ttft_p98, did you mean ttft_p9",
        "tpop=1": "no limit tpop, did you mean tpot",
        "ttft_p99=fast": "must give each limit as a time above 0",
        "ttft_p99": "must be KEY=VALUE pairs",
    }.items():
        with pytest.raises(ConfigError, match=message):
            read_objective([text])
    with pytest.raises(ConfigError, match="no SLO: give at least one"):
        read_objective([])
    with pytest.raises(ConfigError, match=r"--attainment 1\.5: must be a share"):
        read_objective(["ttft=1"], 1.5)


def test_knobs_have_usual_values_lists_or_ranges() -> None:
    knobs = read_knobs(["chunk-size,token_budget=512,2048", "max_num_seqs=log:16..256"])
    assert [*knobs.domains] == ["chunk_size", "max_num_batched_tokens", "max_num_seqs"]
    assert knobs.domains["chunk_size"] == Choice((256, 512, 1024, 2048, None))
    assert knobs.domains["max_num_batched_tokens"] == Choice((512, 2048))
    assert knobs.domains["max_num_seqs"] == Range(16, 256, log=True, whole=True)
    assert knobs.size is None
    assert read_knobs([], {"block_size": ["16", "32"]}).size == 2


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("chunk_size=256,abc", "--over chunk_size=abc: must be a whole number of at least 1, or"),
        ("max_num_seqs=0,64", "--over max_num_seqs=0: must be a whole number of at least 1"),
        ("watermark=0,2", "--over watermark=2: must be a number of at least 0 and at most 1"),
        ("async_scheduling=true,perhaps", "--over async_scheduling=perhaps: "),
    ],
)
def test_value_that_a_knob_can_never_have_is_refused_before_anything_runs(over, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_knobs([over])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chunk_sise", "--over chunk_sise: no such setting, did you mean chunk_size"),
        ("kv_blocks", "--over kv_blocks: has no usual values, give them"),
        ("rate=1,2", "--over rate: makes the workload"),
        ("scheduler=vllm", "--over scheduler: give --schedulers"),
        ("chunk_size=1,1", "is in the list twice"),
    ],
)
def test_a_knob_that_cannot_be_turned_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_knobs([text])


def test_flags_are_vllms_own_and_other_policies_have_none() -> None:
    resolved = {
        **{"max_num_batched_tokens": 4096, "max_num_seqs": 128, "chunk_size": None},
        **{"block_size": 32, "kv_dtype": "fp8", "enable_prefix_caching": True},
    }
    assert vllm_flags("vllm", resolved, ("enable_prefix_caching",)) == (
        "--max-num-batched-tokens 4096 --max-num-seqs 128 --block-size 32 --kv-cache-dtype fp8 "
        "--enable-prefix-caching"
    )
    assert vllm_flags("static", resolved) is None


def test_seeds_are_averaged_and_resamplings_are_not() -> None:
    """9, 10, 11: as seeds t(2) 1 / sqrt 3 = 2.484, as resamplings t(2) x 1 = 4.303."""
    seeds, blocks = of_seeds(9.0, [10.0, 11.0]), of_blocks(12.0, [9.0, 10.0, 11.0])
    assert (seeds.rate, seeds.high) == pytest.approx((10.0, 12.484), abs=1e-3)
    assert (blocks.rate, blocks.low) == pytest.approx((12.0, 12 - 4.303), abs=1e-3)


def test_a_difference_on_the_same_workloads_is_surer_than_the_rates() -> None:
    """Rates differ by 2 between resamplings, but the pairs by 0.9, 1.0 and 1.1: t(2) x 0.1."""
    best, other = of_blocks(10.0, [8.0, 10.0, 12.0]), of_blocks(9.0, [7.1, 9.0, 10.9])
    assert lead(best, other) == pytest.approx((1.0, 1 - 0.4303, 1 + 0.4303), abs=1e-3)
    assert best.high - best.low > 8 * 2
