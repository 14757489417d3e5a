"""One run from Python: what it returns, what it writes, whom it tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodels import CostTable, OperatorGrids, save_table
from experiments.cli.report import warnings
from experiments.config import RunConfig, load_config
from experiments.run import prepare, run_config, write_run
from experiments.workload import build_workload

CONFIG = RunConfig(requests=30, rate=4, cost_model="lesson", kv_blocks=4000)


def test_open_defaults_are_filled_in_and_filling_twice_changes_nothing() -> None:
    config = run_config(CONFIG).config
    assert config.max_num_seqs == 128
    assert config.slo == {"ttft_ms": 1000.0, "tpot_ms": 50.0}
    assert prepare(config).config == config


def test_a_trace_built_before_gives_the_same_summary() -> None:
    trace = build_workload(CONFIG).trace
    first, second = run_config(CONFIG), run_config(CONFIG, trace=trace)
    assert first.summary | {"run": None} == second.summary | {"run": None}


def test_progress_tells_how_many_requests_have_ended() -> None:
    told: list[tuple[int, int]] = []
    run_config(CONFIG, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert all(0 <= done <= total == 30 for done, total in told)


def test_steps_and_timing_can_be_chosen_when_writing(tmp_path: Path) -> None:
    outcome = run_config(CONFIG)
    write_run(outcome, tmp_path / "a", steps=True, timing=False)
    write_run(outcome, tmp_path / "b")
    assert (tmp_path / "a" / "steps.parquet").is_file()
    assert not (tmp_path / "b" / "steps.parquet").exists()
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["run"]["wall_s"] is None
    assert json.loads((tmp_path / "b" / "summary.json").read_text())["run"]["wall_s"] > 0


def test_warm_up_leaves_requests_out_of_latencies_but_not_of_counts() -> None:
    """30 requests, one every 0.25 s from 0.25 s on; the first 8 of them warm up."""
    config = CONFIG.model_copy(update={"arrival": "constant", "warmup_requests": 8})
    summary = run_config(config).summary
    assert summary["submitted"] == 30
    assert summary["ttft_ms"]["n"] == 22
    assert summary["window"]["start_s"] == pytest.approx(2.25)


def test_a_run_beyond_the_measured_range_says_which_share_of_time(tmp_path: Path) -> None:
    """U20. Measured: prompts of 4 and 8 tokens, 1 and 2 ms. Two alone: 8 tokens (2), 16 (4 ms)."""
    grids = OperatorGrids(attention=((4, 0, 0, 0, 1000.0), (8, 0, 0, 0, 2000.0)))
    parts = {"parameters": {"layers": 1}, "provenance": {"origin": "hand-written"}}
    table = CostTable("operators", "small", "a test", operators=grids, **parts)
    save_table(table, tmp_path / "table.json")
    (tmp_path / "trace.csv").write_text("arrival_ms,prompt,output\n0,8,1\n100,16,1\n")
    config = RunConfig(
        trace=str(tmp_path / "trace.csv"),
        format="csv",
        columns={"arrival_ms": "arrival_ms", "prompt_tokens": "prompt", "output_tokens": "output"},
        cost_model=str(tmp_path / "table.json"),
        kv_blocks=100,
    )
    summary = run_config(config).summary
    beyond = summary["cost_model"]["extrapolation"]
    assert summary["ttft_ms"]["max"] == 4.0
    assert (beyond["outside_steps"], beyond["share_of_steps"]) == (1, 0.5)
    assert beyond["share_of_time"] == pytest.approx(4 / 6)
    assert beyond["farthest"]["chunk"] == {"asked": 16, "measured": [4, 8]}
    said = [line for line in warnings(summary) if "extrapolated" in line]
    assert len(said) == 1
    assert "66.7 % of the time" in said[0]


def test_a_stop_time_leaves_work_unfinished_and_counts_it() -> None:
    summary = run_config(CONFIG.model_copy(update={"stop_time_s": 2.0})).summary
    counted = [summary[name] for name in ("finished", "rejected", "unfinished", "not_arrived")]
    assert sum(counted) == 30
    assert summary["not_arrived"] > 0


def test_a_request_that_never_fits_may_block_the_queue_as_in_vllm(tmp_path: Path) -> None:
    """10 blocks of 16: the second prompt of 400 tokens needs 25; the third waits behind it."""
    (tmp_path / "trace.csv").write_text("arrival_ms,prompt,output\n0,40,2\n1,400,2\n2,20,2\n")
    config = RunConfig(
        trace=str(tmp_path / "trace.csv"),
        format="csv",
        columns={"arrival_ms": "arrival_ms", "prompt_tokens": "prompt", "output_tokens": "output"},
        cost_model="lesson",
        kv_blocks=10,
    )
    rejected = run_config(config).summary
    assert (rejected["finished"], rejected["rejected"]) == (2, 1)
    waiting = run_config(config.model_copy(update={"never_fits": "wait"})).summary
    assert (waiting["finished"], waiting["rejected"], waiting["unfinished"]) == (1, 0, 2)


def test_limits_of_one_client_judge_that_client() -> None:
    asked = {"workload": "bundled", "head": 60, "client_slo": "documents.ttft=1ms"}
    clients = run_config(load_config(None, asked)).summary["fairness"]["clients"]

    assert [each["slo"] for each in clients] == [
        {"ttft_ms": 1000.0, "tpot_ms": 50.0},
        {"ttft_ms": 1.0},
    ]
    assert clients[1]["goodput_fraction"] == 0


def test_predictions_are_made_from_the_seed_and_stated() -> None:
    config = RunConfig(workload="bundled", head=60, predict_outputs="lognormal:0.5", seed=4)

    notes = run_config(config).summary["provenance"]["workload"]["notes"]

    assert notes[-1].startswith("output lengths predicted: lognormal:0.5, seed=4; off by")


def test_a_client_delay_is_added_on_the_clients_clock_and_shown_in_the_config() -> None:
    """3 ms in, 4 out and 2 us for each of 100 prompt tokens: 7.2 ms on TTFT and E2E."""
    load = {"requests": 20, "rate": 2.0, "input_tokens": "fixed:100", "output_tokens": "fixed:5"}
    delay = {"client_delay_in_ms": 3, "client_delay_out_ms": 4, "tokenize_us_per_token": 2}
    near, far = (run_config(RunConfig(**load, **given)).summary for given in ({}, delay))

    for name, more in (("ttft_ms", 7.2), ("e2el_ms", 7.2), ("tpot_ms", 0.0), ("queue_ms", 0.0)):
        for statistic in ("mean", "p50", "max"):
            expected = near[name][statistic] + more
            assert far[name][statistic] == pytest.approx(expected, abs=1e-9), name
    assert far["config"]["client_delay_out_ms"] == 4
