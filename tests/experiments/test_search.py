"""Searches against answers worked out by hand or known from theory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import exp, factorial, floor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy.optimize import brentq

from experiments.config import load_config
from experiments.policies import build_policy
from experiments.search import (
    EVERY_RATE,
    FOUND,
    NO_RATE,
    Question,
    SearchOutcome,
    read_knobs,
    read_objective,
    run_search,
)
from experiments.search import evaluator as evaluating
from experiments.search.candidates import Candidates
from experiments.workload import build_workload
from simulator.errors import ConfigError, RunwayError
from simulator.schedulers import SCHEDULERS

Ask = Callable[..., SearchOutcome]

WITHOUT_LOAD = dict.fromkeys(("requests", "rate", "arrival", "input_tokens", "output_tokens"))
"""Settings of the server's usual load, taken back."""


@pytest.fixture
def ask(per_token: Path, tmp_path: Path) -> Ask:
    """One request at a time, 10 prompt tokens, one output token: 10 ms + 10 x 1 ms each."""

    def search(
        slo: str,
        over: tuple[str, ...] = (),
        *,
        out: str = "out",
        schedulers: tuple[str, ...] = ("chunked",),
        base: Mapping[str, Any] | None = None,
        jobs: int = 1,
        **how: Any,
    ) -> SearchOutcome:
        served = {
            "requests": 200,
            "rate": 10,
            "arrival": "constant",
            "input_tokens": "fixed:10",
            "output_tokens": "fixed:1",
            "cost_model": str(per_token),
            "kv_blocks": 500,
            "max_num_seqs": 1,
            **(base or {}),
        }
        how = {"replicates": 0, **how}
        question = Question(served, schedulers, read_knobs(over), read_objective([slo]), **how)
        return run_search(question, tmp_path / out, jobs=jobs)

    return search


def test_the_rate_of_a_server_without_chance_is_its_capacity(ask: Ask) -> None:
    """A request every 1/50 s finds the server free; any faster and the last of 200 waits."""
    (answer,) = ask("ttft_max=20ms").answers
    assert answer.status == FOUND
    assert answer.rate is not None
    assert answer.failed is not None
    assert answer.rate <= 50.0 < answer.failed
    assert answer.failed / answer.rate <= 1.01
    assert answer.binding == ("ttft_max",)
    assert answer.at is not None
    assert answer.at.limits["ttft_max"].value == 20.0
    assert answer.violations == ()


def test_a_looser_limit_lets_the_last_request_wait_longer(ask: Ask) -> None:
    """Request n of 200 waits n (20 - gap): the last within 70 ms - 20 ms if 199 (20 - gap) <= 50.

    gap >= 19.7487 ms: 50.636 requests/s. A queue that grows that slowly is not saturated.
    """
    (answer,) = ask("ttft_max=70ms", precision=0.001).answers
    assert answer.rate is not None
    assert answer.failed is not None
    assert answer.rate <= 50.637
    assert answer.failed >= 50.636


def md1_wait_share(load: float, waits: float) -> float:
    """P(wait <= `waits` services) of M/D/1. Source: Erlang 1909; Crommelin 1932."""
    return (1 - load) * sum(
        (-load * (waits - k)) ** k / factorial(k) * exp(load * (waits - k))
        for k in range(floor(waits) + 1)
    )


def test_poisson_arrivals_at_one_server_reach_the_load_of_theory(ask: Ask) -> None:
    """U18: p99 of the wait at most 3 services of 20 ms: by the formula load 0.463, 23.1 /s."""
    load = brentq(lambda r: md1_wait_share(r, 3.0) - 0.99, 0.2, 0.9)
    expected = load / 0.020
    (answer,) = ask(
        "ttft_p99=80ms",
        base={"requests": 3000, "arrival": "poisson"},
        replicates=5,
        precision=0.02,
        rates=(5, 60),
    ).answers
    sure = answer.certainty
    assert sure is not None
    assert len(sure.rates) == 5
    assert sure.low <= expected <= sure.high
    assert sure.rate == pytest.approx(expected, rel=0.05)
    assert sure.high - sure.low < 0.2 * expected


def test_the_best_value_wins_and_each_knob_says_what_it_is_worth(ask: Ask) -> None:
    """Budget 5 takes two steps of 15 ms: 33.3 /s. Budget 10 one of 20 ms: 50 /s and a little.

    Both within TTFT 30 ms. Budget 2 takes five steps of 12 ms: never.
    """
    (answer,) = ask("ttft_max=30ms", ("max_num_batched_tokens=2,5,10",)).answers
    assert answer.candidate is not None
    assert answer.candidate.settings == {"max_num_batched_tokens": 10}
    rates = {level.value: level.rate for level in answer.sensitivity}
    assert rates[2] is None
    assert rates[5] == pytest.approx(100 / 3, rel=0.011)
    assert rates[10] == answer.rate == pytest.approx(50.1, rel=0.011)
    assert [level.is_best for level in answer.sensitivity] == [False, False, True]


def test_without_a_rate_the_lowest_that_was_tried_is_the_bound(ask: Ask) -> None:
    (answer,) = ask("ttft_max=19ms", rates=(1, 100)).answers
    assert (answer.status, answer.rate) == (NO_RATE, None)
    assert answer.failed == 1.0
    assert answer.binding == ("ttft_max",)
    assert answer.beyond is not None
    assert answer.beyond.limits["ttft_max"].value == 20.0


def test_if_all_rates_pass_the_highest_that_was_tried_is_the_bound(ask: Ask) -> None:
    (answer,) = ask("ttft_max=1000s", rates=(1, 40)).answers
    assert (answer.status, answer.rate, answer.failed) == (EVERY_RATE, 40.0, None)


def test_a_queue_that_only_grows_meets_no_slo(ask: Ask) -> None:
    """Twice the capacity: the last of 200 waits 2 s, within any loose limit, but others follow."""
    (answer,) = ask("ttft_max=1000s", precision=0.05).answers
    assert answer.rate is not None
    assert answer.rate < 100
    assert answer.binding == ("saturated",)
    assert answer.saturates_from == answer.failed


BURSTY = {"arrival": "poisson", "input_tokens": "uniform:5:60", "output_tokens": "uniform:1:20"}
SPACE = ("chunk_size=4,16,none", "max_num_batched_tokens=16,32,64")
MIXED = {**BURSTY, "requests": 60, "max_num_seqs": 8}


def test_the_race_finds_what_bracketing_every_configuration_finds(ask: Ask) -> None:
    """Nine configurations on the same requests: each alone, and all in one search."""
    (best,) = ask("ttft_p90=400ms,tpot_p90=60ms", SPACE, base=MIXED).answers
    alone = {}
    for chunk in ("4", "16", "none"):
        for budget in ("16", "32", "64"):
            base = {**MIXED, "chunk_size": chunk, "max_num_batched_tokens": budget}
            (told,) = ask(
                "ttft_p90=400ms,tpot_p90=60ms", base=base, out=f"{chunk}-{budget}"
            ).answers
            alone[chunk, budget] = told.rate or 0.0
    assert best.rate is not None
    assert best.rate == pytest.approx(max(alone.values()), rel=0.011)
    assert min(alone.values()) < 0.9 * best.rate
    assert best.space == 9
    assert best.configurations == 8  # 16 and none are one under a budget of 16


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in ("search.json", "evaluations.parquet")}


def test_one_and_two_processes_write_the_same_bytes(ask: Ask, tmp_path: Path) -> None:
    """Two schedulers, the optimiser and seeds."""
    asked = {
        "base": {**MIXED, "requests": 30},
        "replicates": 2,
        "schedulers": ("chunked", "vllm"),
        "exhaustive": 1,
        "trials": 8,
        "precision": 0.05,
    }
    ask("ttft_p90=400ms", SPACE, out="one", **asked)
    ask("ttft_p90=400ms", SPACE, out="two", jobs=2, **asked)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_the_optimiser_finds_the_best_of_a_space_with_a_range(ask: Ask) -> None:
    """Budgets 1 to 40 for prompts of 10: from 10 up one step, which is best."""
    asked = ("max_num_batched_tokens=1..40", "enable_prefix_caching=true,false")
    (answer,) = ask("ttft_max=30ms", asked, trials=24).answers
    assert answer.space is None
    assert answer.configurations > 8
    assert answer.candidate is not None
    assert answer.candidate.settings["max_num_batched_tokens"] >= 10
    assert answer.rate == pytest.approx(50.1, rel=0.011)


def test_the_same_call_runs_only_what_is_missing(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ask("ttft_max=30ms", ("max_num_batched_tokens=5,10",))
    before = contents(tmp_path / "out")
    kept = sorted((tmp_path / "out" / "evaluations").iterdir())
    for path in kept[:3]:
        path.unlink()
    (tmp_path / "out" / "evaluations" / f".{kept[0].name}.1.tmp").write_text("{")
    ran: list[str] = []
    evaluate = evaluating.evaluate
    monkeypatch.setattr(
        evaluating, "evaluate", lambda job: ran.append(f"{job.key}.json") or evaluate(job)
    )
    again = ask("ttft_max=30ms", ("max_num_batched_tokens=5,10",))
    assert sorted(ran) == [path.name for path in kept[:3]]
    assert (again.evaluations, again.resumed) == (whole.evaluations, whole.evaluations - 3)
    assert contents(tmp_path / "out") == before


def test_every_run_is_a_row(ask: Ask, tmp_path: Path) -> None:
    outcome = ask("ttft_max=30ms", ("max_num_batched_tokens=5,10",), replicates=2)
    rows = pd.read_parquet(tmp_path / "out" / "evaluations.parquet")
    assert len(rows) == outcome.evaluations
    assert not rows.duplicated(["configuration", "rate", "replicate"]).any()
    passed = rows[rows["passed"]]
    assert (passed["ttft_max"] <= 30).all()
    assert (passed["broken"] == "").all()
    report = json.loads((tmp_path / "out" / "search.json").read_text())
    flags = "--max-num-batched-tokens 10 --max-num-seqs 1 --num-gpu-blocks-override 501"
    assert report["answers"][0]["vllm_flags"] == flags
    assert report["question"]["slo"]["limits"] == {"ttft_max": 30.0}


def test_a_configuration_that_cannot_run_is_named_and_the_rest_goes_on(ask: Ask) -> None:
    (answer,) = ask("ttft_max=30ms", ("max_num_seqs=1,20", "max_num_batched_tokens=10")).answers
    assert answer.status == FOUND
    (reason,) = {*answer.invalid.values()}
    assert "max_num_batched_tokens 10 is below max_num_seqs 20" in reason
    with pytest.raises(ConfigError, match="is below max_num_seqs"):
        ask("ttft_max=30ms", ("max_num_seqs=20,30", "max_num_batched_tokens=10"), out="none")


def test_sessions_are_resampled_whole_and_say_how_sure(ask: Ask, tmp_path: Path) -> None:
    """Pairs of turns, the second 50 ms after the answer; the gaps between sessions differ."""
    trace = tmp_path / "sessions.jsonl"
    rows = []
    for number in range(40):
        turn = {"arrival_s": number + number**2 / 100, "prompt_tokens": 10, "output_tokens": 1}
        rows.append({**turn, "id": f"{number}.1", "think_ns": 0})
        rows.append({**turn, "id": f"{number}.2", "parent": f"{number}.1", "think_ns": 50_000_000})
    trace.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = ask("ttft_p90=30ms", base={**WITHOUT_LOAD, "trace": str(trace)}, replicates=3)
    (answer,) = found.answers
    assert answer.certainty is not None
    assert answer.certainty.method == "blocks"
    assert min(answer.certainty.rates) > 0
    assert answer.certainty.low < answer.certainty.high


def test_workloads_of_the_kind_that_cannot_run_are_no_certainty(
    ask: Ask, trace_of: Callable[..., Path]
) -> None:
    """Two requests in the first and last of 20 stretches: few draws have both."""
    base = {**WITHOUT_LOAD, "trace": str(trace_of((0.0, 10, 1), (1.0, 10, 1)))}
    with pytest.raises(RunwayError, match=r"cannot be told, workload \d.*--replicates 0"):
        ask("ttft_max=30ms", base=base, replicates=8, blocks=20, rates=(1, 30))


def test_rejected_requests_are_over_every_limit(ask: Ask, trace_of: Callable[..., Path]) -> None:
    """One of 20 prompts never fits. Linear interpolation: a p90 is between the 18th and 19th
    request, which were answered; a p95 between the 19th and 20th, which was not.
    """
    trace = trace_of(*((float(row), 9000 if row == 3 else 10, 1) for row in range(20)))
    base = {**WITHOUT_LOAD, "trace": str(trace)}
    (bears,) = ask("ttft_p90=1s", base=base, rates=(1, 20)).answers
    (never,) = ask("ttft_p95=1s", base=base, rates=(1, 20)).answers
    assert (bears.status, never.status) == (EVERY_RATE, NO_RATE)
    assert bears.at is not None
    assert bears.at.limits["ttft_p90"].share == 0.95


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"precision": 0.0}, "--precision 0: must be a share of 0.001 to 0.5"),
        ({"replicates": 1}, "--replicates 1: must be 0, or at least 2"),
        ({"rates": (5, 2)}, "--rates 5:2: must be LOWEST:HIGHEST"),
        ({"base": {"users": 3, "rate": None, "arrival": None}}, "--users makes a closed loop"),
        ({"base": {"requests": None}}, "no workload"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    ask: Ask, tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ask("ttft_max=30ms", **how)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_results_is_refused(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sweep.parquet").write_text("")
    with pytest.raises(ConfigError, match=r"holds other results \(sweep.parquet\)"):
        ask("ttft_max=30ms")


@pytest.mark.parametrize("scheduler", sorted(SCHEDULERS))
def test_a_knob_is_unused_only_where_the_run_says_so(
    scheduler: str, per_token: Path, trace_of: Callable[..., Path]
) -> None:
    """sglang takes max_num_seqs as max_running_requests and vllm scheduling_policy as policy."""
    base = {"trace": str(trace_of((0, 10, 2))), "cost_model": str(per_token), "kv_blocks": 99}
    config = load_config(None, {**base, "scheduler": scheduler})
    candidates = Candidates(base, scheduler, build_workload(config))
    for knob, values in {
        "max_num_seqs": (4, 16),
        "scheduling_policy": ("priority", "fcfs"),
        "chunk_size": (5, 7),
        "chunked_prefill_size": (5, 7),
    }.items():
        made = candidates.make({knob: values[0]})
        if made is None:
            continue  # a policy may refuse a value that it takes
        noted = build_policy(made.config).notes
        is_unused = f"{knob} {values[0]} is not used by {scheduler}" in noted
        assert (knob in made.unused) == is_unused
        distinct = candidates.distinct([{knob: value} for value in values])
        assert len(distinct) == (1 if is_unused else 2)
