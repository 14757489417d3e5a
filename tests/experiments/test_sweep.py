"""Sweeps end to end: equal settings, invalid and failing points, processes, resuming."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from experiments.sweep import SweepSpec, load_spec, run_sweep
from experiments.sweep import runner as sweep_runner
from experiments.sweep.rows import metric_names
from simulator.errors import ConfigError, WorkloadError

TraceOf = Callable[..., Path]
FILES = ("sweep.parquet", "sweep.csv", "sweep.yaml", "timelines.parquet")

FLAWED = """\
from simulator import Plan


class Flawed:
    def __init__(self, max_num_batched_tokens=2048, max_num_seqs=128):
        self.max_num_batched_tokens = max_num_batched_tokens

    def plan(self, view):
        if self.max_num_batched_tokens < 1024:
            raise ZeroDivisionError("no such luck\\nat all")
        return Plan(prefill=tuple((s, s.remaining_tokens) for s in view.waiting))
"""


@pytest.fixture
def spec_of(trace_of: TraceOf, per_token: Path) -> Callable[..., SweepSpec]:
    """A sweep over the given grid; its trace has a long prompt arriving on two streams."""

    def make(grid: Mapping[str, list[Any]], **base: object) -> SweepSpec:
        trace = trace_of((0.0, 20, 60), (0.0, 30, 60), (0.3, 600, 5), (5.0, 40, 20))
        fixed = {"trace": str(trace), "cost_model": str(per_token), "kv_blocks": 200, **base}
        return load_spec(None, fixed, grid)

    return make


SpecOf = Callable[..., SweepSpec]


def contents(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in FILES}


def points(out: Path) -> dict[str, bytes]:
    """The kept records."""
    return {path.name: path.read_bytes() for path in sorted((out / "points").glob("*-*.json"))}


def test_equal_effective_settings_have_equal_numbers(spec_of: SpecOf, tmp_path: Path) -> None:
    """U04: chunk {64, 256, 1024} x budget {128, 512}: chunks above a budget of 128 are 128."""
    grid = {"chunk_size": [64, 256, 1024], "max_num_batched_tokens": [128, 512]}
    outcome = run_sweep(spec_of(grid), tmp_path / "out")
    rows = outcome.rows.set_index(["chunk_size", "max_num_batched_tokens"])
    assert (len(rows), outcome.ok) == (6, 6)
    pd.testing.assert_series_equal(
        rows.loc[256, 128][metric_names()], rows.loc[1024, 128][metric_names()], check_names=False
    )
    assert rows["effective_chunk_size"].tolist() == [64, 64, 128, 256, 128, 512]
    assert rows.loc[64, 128]["ttft_ms_max"] != rows.loc[256, 128]["ttft_ms_max"]


def test_an_invalid_point_is_a_row_and_the_rest_runs(spec_of: SpecOf, tmp_path: Path) -> None:
    """U03: budgets 3, 0, -1, 2.5 and abc with four sequences."""
    grid = {"max_num_batched_tokens": [3, 0, -1, 2.5, "abc", 256]}
    out = tmp_path / "out"
    outcome = run_sweep(spec_of(grid, max_num_seqs=4), out)
    rows = pd.read_parquet(out / "sweep.parquet")
    assert rows["status"].tolist() == ["invalid"] * 5 + ["ok"]
    assert (outcome.ok, outcome.invalid, outcome.failed) == (1, 5, 0)
    assert "max_num_batched_tokens 3 is below max_num_seqs 4" in rows["reason"][0]
    assert "'abc': must be a whole number of at least 1" in rows["reason"][4]
    assert rows["max_num_batched_tokens"].tolist() == ["3", "0", "-1", "2.5", "abc", "256"]
    assert rows["ttft_ms_mean"].isna().tolist() == [True] * 5 + [False]
    assert pd.isna(rows["reason"][5])


def test_a_policy_that_raises_fails_its_points_only(spec_of: SpecOf, tmp_path: Path) -> None:
    policy = tmp_path / "flawed.py"
    policy.write_text(FLAWED, encoding="utf-8")
    spec = spec_of(
        {"max_num_batched_tokens": [512, 2048], "head": [1]},
        scheduler=f"{policy}:Flawed",
        max_num_seqs=4,
        trace=str(tmp_path / "one.csv"),
    )
    (tmp_path / "one.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,1\n")
    outcome = run_sweep(spec, tmp_path / "out")
    assert outcome.rows["status"].tolist() == ["failed", "ok"]
    assert "ZeroDivisionError: no such luck; at all at" in outcome.rows["reason"][0]
    assert outcome.rows["ttft_ms_mean"][1] == 20.0


def test_one_and_two_processes_write_the_same_bytes(spec_of: SpecOf, tmp_path: Path) -> None:
    grid = {"rate": [2.0, 4.0], "max_num_batched_tokens": [3, 128, 512]}
    alone = run_sweep(spec_of(grid, max_num_seqs=4), tmp_path / "one", jobs=1)
    shared = run_sweep(spec_of(grid, max_num_seqs=4), tmp_path / "two", jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert points(tmp_path / "one") == points(tmp_path / "two")
    pd.testing.assert_frame_equal(alone.rows, shared.rows)


def test_a_sweep_none_of_whose_points_can_run_is_refused(spec_of: SpecOf, tmp_path: Path) -> None:
    spec = spec_of({"max_num_batched_tokens": [64, 128]}, cost_model="nope")
    with pytest.raises(ConfigError, match=r"^cost model 'nope' is unknown"):
        run_sweep(spec, tmp_path / "out")
    with pytest.raises(ConfigError, match=r"^none of the 2 points can be run\nmax_num_batched_tok"):
        run_sweep(spec_of({"max_num_batched_tokens": [2, 3]}, max_num_seqs=4), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_broken_cost_table_is_one_invalid_point(spec_of: SpecOf, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: linear\n", encoding="utf-8")
    outcome = run_sweep(spec_of({"cost_model": [str(broken), "lesson"]}), tmp_path / "out")
    assert outcome.rows["status"].tolist() == ["invalid", "ok"]
    assert "missing" in outcome.rows["reason"][0]


def test_the_same_call_runs_only_what_is_missing(
    spec_of: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if killed after two of four points; the torn temporary file of a third is ignored."""
    spec = spec_of({"max_num_batched_tokens": [64, 128, 256, 512]}, max_num_seqs=4)
    whole, out = tmp_path / "whole", tmp_path / "out"
    run_sweep(spec, whole)
    run_sweep(spec, out)
    kept = sorted((out / "points").glob("*-*.json"))
    for path in kept[2:]:
        path.unlink()
    (out / "points" / f".{kept[2].name}.1.tmp").write_text('{"status": "o', encoding="utf-8")
    for name in FILES:
        (out / name).unlink()
    ran: list[int] = []
    run_job = sweep_runner.run_job
    monkeypatch.setattr(sweep_runner, "run_job", lambda job: ran.append(job.key[0]) or run_job(job))
    seen: list[tuple[int, int]] = []
    outcome = run_sweep(spec, out, progress=lambda done, total, _: seen.append((done, total)))
    assert ran == [2, 3]
    assert outcome.resumed == 2
    assert seen == [(2, 4), (3, 4), (4, 4)]
    assert contents(out) == contents(whole)
    assert not [*(out / "points").glob(".*")]


def test_a_changed_sweep_in_a_used_folder_is_refused(spec_of: SpecOf, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_sweep(spec_of({"max_num_batched_tokens": [128, 256]}), out)
    before = contents(out)
    with pytest.raises(ConfigError) as error:
        run_sweep(spec_of({"max_num_batched_tokens": [128, 512]}), out)
    assert "max_num_batched_tokens was [128, 256], now [128, 512]" in str(error.value)
    assert "give another folder, or remove" in str(error.value)
    with pytest.raises(ConfigError, match="seed was None, now 7"):
        run_sweep(spec_of({"max_num_batched_tokens": [128, 256]}, seed=7), out)
    assert contents(out) == before


def test_a_trace_with_other_content_is_another_sweep(
    spec_of: SpecOf, trace_of: TraceOf, tmp_path: Path
) -> None:
    spec = spec_of({"max_num_batched_tokens": [128, 256]})
    run_sweep(spec, tmp_path / "out")
    trace_of((0.0, 20, 5))
    with pytest.raises(ConfigError, match=r"the content of .*trace\.csv changed"):
        run_sweep(spec, tmp_path / "out")


def test_an_unreadable_workload_stops_the_sweep_before_it_writes(
    spec_of: SpecOf, tmp_path: Path
) -> None:
    spec = spec_of({"max_num_batched_tokens": [128, 256]}, trace=str(tmp_path / "missing.csv"))
    with pytest.raises(WorkloadError, match=r"missing\.csv"):
        run_sweep(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_same_seed_gives_every_point_the_same_arrivals(tmp_path: Path) -> None:
    """Common random numbers: only the scheduler differs, the offered load is one."""
    base = {"requests": 60, "rate": 5, "seed": 3, "cost_model": "lesson", "kv_blocks": 4000}
    grid = {"scheduler": ["continuous", "chunked"], "max_num_batched_tokens": [256, 2048]}
    rows = run_sweep(load_spec(None, base, grid), tmp_path / "out").rows
    assert rows["status"].eq("ok").all()
    assert rows["offered_rate"].nunique() == 1
    assert rows["ttft_ms_mean"].nunique() > 1


def test_the_saved_description_can_be_run_again(spec_of: SpecOf, tmp_path: Path) -> None:
    spec = spec_of({"chunk_size": [64, None], "max_num_batched_tokens": [128]})
    run_sweep(spec, tmp_path / "out")
    saved = yaml.safe_load((tmp_path / "out" / "sweep.yaml").read_text(encoding="utf-8"))
    assert saved["points"] == {"ok": 2, "invalid": 0, "failed": 0}
    assert saved["slo"] == {"ttft_ms": 1000.0, "tpot_ms": 50.0}
    assert saved["setting"] == "trace.csv, 4 requests, per-token (uncalibrated)"
    assert load_spec(tmp_path / "out" / "sweep.yaml") == spec


def test_the_moment_is_the_long_prompt_on_running_streams(spec_of: SpecOf, tmp_path: Path) -> None:
    """600 tokens arrive at 0.3 s on two streams; decode steps take 10 ms.

    Both streams' prompts take one step of 10 + 50 ms, so a step ends at 300 ms exactly and the
    long prompt starts at once. In chunks of 64: nine steps of 74 ms and one of 10 + 24 ms.
    """
    out = tmp_path / "out"
    run_sweep(spec_of({"chunk_size": [64, None]}), out)
    steps = pd.read_parquet(out / "timelines.parquet")
    assert steps["prompt_tokens"].unique().tolist() == [600]
    assert steps["arrival_s"].unique().tolist() == [0.3]
    by_point = steps.groupby("point")["first_token_ms"].first()
    assert by_point.tolist() == [9 * 74 + 34, 610.0]
    chunks = steps[(steps["point"] == 0) & (steps["prefill_tokens"] > 0)]
    assert chunks["prefill_tokens"].tolist() == [64] * 9 + [24]
    assert chunks["decode_seqs"].unique().tolist() == [2]


def test_what_the_moment_needs_is_simulated_beside_the_last_runs(
    spec_of: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no result decides which points it shows; the moment is the same."""
    spec, out = spec_of({"chunk_size": [64, None]}), tmp_path / "out"
    run_sweep(spec, out)
    shown: list[list[int]] = []
    frame = sweep_runner.moment_frame

    def seen(*each: Any) -> Any:
        shown.append(sorted(each[-1]))
        return frame(*each[:-1], {})

    monkeypatch.setattr(sweep_runner, "moment_frame", seen)
    run_sweep(spec, tmp_path / "again")
    assert shown == [[0, 1]]
    assert contents(tmp_path / "again") == contents(out)


def test_jobs_must_be_a_number_of_processes(spec_of: SpecOf, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="jobs is 0, must be at least 1, or -1"):
        run_sweep(spec_of({"seed": [1]}), tmp_path / "out", jobs=0)
