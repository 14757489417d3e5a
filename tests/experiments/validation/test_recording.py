"""A recording of vLLM on a CPU (28 requests, 473 steps, 7 preemptions): steps and requests.

The recording is our own, of vLLM 0.32.0; the file says how it was made.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from calibration.engine_log import read_engine_log
from costmodels import StepsCostModel, save_table
from experiments.validation.recording import validate_requests, validate_steps
from experiments.validation.replay import differences_given_times
from simulator.errors import ConfigError

Runway = Callable[..., Result]
RECORDING = Path(__file__).parent / "recordings" / "vllm-cpu-0.32.0.json"
PRICES = StepsCostModel(step_ms=5, compute_ms_per_token=0.2)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Prices by hand: 5 ms, and 0.2 ms a token."""
    path = tmp_path / "by-hand.yaml"
    save_table(PRICES.table, path)
    return path


def changed(tmp_path: Path, change: Callable[[dict], None]) -> Path:
    raw = json.loads(RECORDING.read_text())
    change(raw)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(raw))
    return path


def test_given_the_times_the_scheduler_plans_every_step_of_vllm() -> None:
    """Who computes how many tokens, who is preempted, and the free blocks: in all 473 steps."""
    log = read_engine_log(RECORDING)
    assert len(log.steps) == 473
    assert sum(len(step.preempted) for step in log.steps) == 7
    assert differences_given_times(log) == 0


def test_another_limit_plans_other_steps(tmp_path: Path) -> None:
    def larger(raw: dict) -> None:
        raw["engine"]["max_batch_tokens"] = 256

    log = read_engine_log(changed(tmp_path, larger))
    assert differences_given_times(log) > 100


def test_steps_are_priced_one_by_one() -> None:
    report = validate_steps([RECORDING], PRICES)
    steps = read_engine_log(RECORDING).steps
    decodes = [step for step in steps if not step.chunks]
    held = next(s for s in report.samples if s.quantity == "step_ms (decode)")
    assert held.measured.tolist() == [step.duration_ns / 1e6 for step in decodes]
    assert held.predicted == pytest.approx([5 + 0.2 * len(step.decodes) for step in decodes])
    total = next(row for row in report.rows if row.statistic == "sum")
    tokens = sum(sum(step.batch.values()) for step in steps)
    assert total.predicted == pytest.approx((5 * len(steps) + 0.2 * tokens) / 1e3)
    assert total.n == 473


def test_requests_are_simulated_with_the_limits_of_the_file_and_several_runs_spread(
    tmp_path: Path,
) -> None:
    def slower(raw: dict) -> None:
        for request in raw["requests"]:
            request["ttft_s"] *= 1.5

    report = validate_requests([RECORDING, changed(tmp_path, slower)], PRICES)
    means = {
        row.run: row.measured
        for row in report.rows
        if (row.quantity, row.statistic) == ("ttft_ms", "mean")
    }
    first, second, mean = means.values()
    assert second == pytest.approx(1.5 * first)
    assert mean == pytest.approx(1.25 * first)
    assert report.notes[0].startswith("ttft_ms: largest - smallest mean of the runs is 40.0%")
    assert report.notes[1].startswith("tpot_ms: largest - smallest mean of the runs is 0.0%")
    same = [row.error for row in report.rows if row.statistic == "differences"]
    assert same == [0, 0]


def test_runs_of_two_traces_are_refused(tmp_path: Path) -> None:
    def longer(raw: dict) -> None:
        raw["requests"][3]["arrival_s"] += 1e-3

    with pytest.raises(ConfigError, match="not runs of one trace"):
        validate_requests([RECORDING, changed(tmp_path, longer)], PRICES)


def test_the_commands_write_report_rows_and_figures(
    runway: Runway, table: Path, tmp_path: Path
) -> None:
    for word in ("steps", "requests"):
        out = tmp_path / word
        flags = ("--cost-model", str(table), "--out", str(out))
        done = runway("validate", word, str(RECORDING), *flags, "--json")
        assert done.exit_code == 0, done.output
        (held,) = json.loads(done.stdout)["datasets"]
        assert held == json.loads((out / "report.json").read_text())["datasets"][0]
        assert len((out / "rows.csv").read_text().splitlines()) == 1 + len(held["rows"])
        assert len(list((out / "figures").iterdir())) == 3


def test_a_step_log_is_priced_from_what_it_tells(
    runway: Runway, table: Path, tmp_path: Path
) -> None:
    """A prompt of 100 beside 2 decodes: 5 + 0.2 x 102 = 25.4 ms, 10 % over the 23.09 logged."""
    header = (
        "counter_id,sum_prefill_tokens,num_prefill_requests,sum_prefill_kv_tokens,"
        "var_prefill_length,num_decode_requests,sum_decode_kv_tokens,var_decode_kv_tokens,latency_ms"
    )
    log = tmp_path / "log.csv"
    log.write_text(f"{header}\n0,100,1,0,0,2,50,0,23.0909090909\n")
    done = runway("validate", "steps", str(log), "--cost-model", str(table), "--json")
    rows = json.loads(done.stdout)["datasets"][0]["rows"]
    assert np.isclose(rows[0]["error"], 0.1)
    assert rows[0]["quantity"] == "step_ms (mixed)"


@pytest.mark.parametrize("word", ["steps", "requests"])
def test_bad_input_is_one_message_and_exit_2(
    word: str, runway: Runway, table: Path, tmp_path: Path
) -> None:
    done = runway("validate", word, str(tmp_path / "no.json"), "--cost-model", str(table))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert "no such file" in done.stderr
    done = runway("validate", word, str(RECORDING), "--cost-model", "absent")
    assert done.exit_code == 2
    done = runway("validate", word, str(RECORDING))
    assert "Missing option '--cost-model'" in done.stderr
