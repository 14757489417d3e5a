"""`runway sweep` from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import Result

from costmodels import CostTable, OperatorGrids, save_table
from experiments.cli import workers
from experiments.report import build_report
from experiments.sweep.notebook import outcome_html
from experiments.sweep.ranking import best_first
from experiments.sweep.rows import metric_names

Runway = Callable[..., Result]
TraceOf = Callable[..., Path]


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        (["--rate", "4,8", "--out", "DIR"], [(-1, "loky")]),
        (["sweep.yaml", "--jobs", "2", "--quiet"], [(2, "loky")]),
        (["--unknown", "--jobs=1", "--no-figures"], [(1, "loky")]),
        (["--backend", "ray", "--jobs", "-1"], [(-1, "ray")]),
        (["--jobs", "2", "--help"], []),
    ],
)
def test_workers_start_before_the_command_is_known_as_its_flags_say(
    monkeypatch: pytest.MonkeyPatch, args: list[str], asked: list[tuple[int, str]]
) -> None:
    started: list[tuple[int, str]] = []
    monkeypatch.setattr(workers, "warm_up", lambda *each: started.append(each))
    workers.start_workers(args)
    assert started == asked


def test_numpy_starts_no_threads_that_it_has_no_work_for() -> None:
    """They spin when they start, beside a process that loads too. Linux lists its threads."""
    program = """
import os
from experiments.cli.workers import start_workers
start_workers(["--jobs", "1"])
import numpy
print(len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 1)
"""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "1\n"


def test_jobs_that_are_no_number_are_one_message(runway: Runway, tmp_path: Path) -> None:
    result = runway("sweep", "--jobs", "two", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert result.stderr == "Error: Invalid value for '--jobs': 'two' is not a valid integer.\n"


def test_equal_effective_settings_are_equal_points(
    runway: Runway, trace_of: TraceOf, per_token: Path, tmp_path: Path
) -> None:
    """U04: chunk {64, 256, 1024} x budget {128, 512} are six rows."""
    flags = ("--trace", trace_of((0, 300, 1)), "--cost-model", per_token, "--kv-blocks", 64)
    grid = ("--chunk-size", "64,256,1024", "--max-num-batched-tokens", "128,512")
    result = runway(
        "sweep", *flags, *grid, "--jobs", 1, "--no-figures", "--json", "--out", tmp_path / "out"
    )
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["points"]
    points = {(row["chunk_size"], row["max_num_batched_tokens"]): row for row in rows}
    assert len(points) == 6
    capped = [points[size, 128] for size in (256, 1024)]
    for row in capped:
        assert row.pop("chunk_size")
        row.pop("index")
    assert capped[0] == capped[1]
    assert capped[0]["effective_chunk_size"] == 128
    # 300 tokens in chunks of 128, 128, 44: three steps of 10 ms and 1 ms a token
    assert capped[0]["ttft_ms_mean"] == 330


def test_an_invalid_point_is_a_row_and_the_exit_code_says_so(
    runway: Runway, trace_of: TraceOf, per_token: Path, tmp_path: Path
) -> None:
    """U03: budget 3 with four sequences."""
    flags = ("--trace", trace_of((0, 8, 2)), "--cost-model", per_token, "--kv-blocks", 64)
    grid = ("--max-num-batched-tokens", "3,8", "--max-num-seqs", 4)
    out = tmp_path / "out"
    result = runway("sweep", *flags, *grid, "--jobs", 1, "--out", out)
    assert result.exit_code == 1
    assert "! 1 point (0) invalid: max_num_batched_tokens 3 is below max_num_seqs 4" in (
        result.stdout
    )
    assert "1 of 2 points ran" in result.stdout
    table = pq.read_table(out / "sweep.parquet").to_pydict()
    assert table["status"] == ["invalid", "ok"]
    assert table["ttft_ms_mean"] == [None, 18.0]


def test_settings_that_change_less_than_they_say_are_told_once(
    runway: Runway, trace_of: TraceOf, per_token: Path, tmp_path: Path
) -> None:
    flags = ("--trace", trace_of((0, 8, 2)), "--cost-model", per_token, "--kv-blocks", 64)
    grid = ("--chunk-size", "4,8", "--scheduler", "continuous,chunked", "--kv-dtype", "fp8")
    out, again = tmp_path / "out", tmp_path / "again"
    result = runway("sweep", *flags, *grid, "--jobs", 1, "--no-figures", "--out", out)
    told = [line for line in result.stdout.splitlines() if line.startswith("! ")]
    assert told == [
        "! 1 point (0): chunk_size 4 is not used by continuous",
        "! 4 points (0, 1, 2, 3): kv_dtype fp8 is not used: prices are those of per-token, and the "
        "KV cache is not sized from bytes (--kv-cache-gib, --gpu-memory-gib)",
        "! 1 point (2): chunk_size 8 is not used by continuous",
    ]
    saved = yaml.safe_load((out / "sweep.yaml").read_text())["notes"]
    assert [each["points"] for each in saved] == [[0], [0, 1, 2, 3], [2]]
    repeated = runway(
        *("sweep", out / "sweep.yaml", "--seeds", 1, "--jobs", 1, "--no-figures"),
        *("--json", "--out", again),
    )
    assert json.loads(repeated.stdout)["notes"] == saved


def test_bad_input_exits_with_2_and_writes_nothing(runway: Runway, tmp_path: Path) -> None:
    result = runway("sweep", "--chunk-size", "256,512", "--jobs", 1, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no workload: give --trace FILE" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_plot_draws_a_sweep_again(
    runway: Runway, trace_of: TraceOf, per_token: Path, tmp_path: Path
) -> None:
    flags = ("--trace", trace_of((0, 8, 2), (0.1, 9, 3)), "--cost-model", per_token)
    out = tmp_path / "out"
    grid = ("--kv-blocks", 64, "--chunk-size", "4,8", "--jobs", 1, "--quiet", "--no-figures")
    assert runway("sweep", *flags, *grid, "--out", out).exit_code == 0
    assert not (out / "figures").exists()
    result = runway("plot", out)
    assert result.exit_code == 0, result.stderr
    assert (out / "figures" / "ttft-vs-tpot.png").is_file()


def test_points_equal_as_printed_go_to_the_lesser_latency() -> None:
    """2.0041 and 2.0039 good requests/s are both 2.00; then TTFT p99, TPOT p99, the order asked."""
    rows = pd.DataFrame(
        {
            "index": range(6),
            "status": "ok",
            "request_goodput": [2.0041, 2.0039, 2.0040, 2.0039, 2.01, 2.0041],
            "ttft_ms_p99": [90.0, 80.04, 80.01, 80.0, 99.0, None],
            "tpot_ms_p99": [9.0, 9.0, 9.0, 8.0, 9.0, 9.0],
        }
    )
    assert best_first(rows)["index"].tolist() == [4, 3, 1, 2, 0, 5]
    assert best_first(rows, "ttft_ms_p99")["index"].tolist() == [3, 1, 2, 0, 4, 5]
    turned = rows.iloc[::-1]
    assert best_first(turned)["index"].tolist() == [4, 3, 1, 2, 0, 5]
    filled = rows.assign(**{c: 1.0 for c in metric_names() if c not in rows})
    shown = outcome_html(filled)
    assert shown.index("<td>3</td>") < shown.index("<td>1</td>") < shown.index("<td>0</td>")


def test_time_priced_beyond_the_measured_range_is_said(
    runway: Runway, trace_of: TraceOf, tmp_path: Path
) -> None:
    """Measured: prompts of 4 and 8 tokens, 1 and 2 ms. 8 tokens alone are within, 16 are not."""
    grids = OperatorGrids(attention=((4, 0, 0, 0, 1000.0), (8, 0, 0, 0, 2000.0)))
    parts = {"parameters": {"layers": 1}, "provenance": {"origin": "hand-written"}}
    save_table(
        CostTable("operators", "small", "a test", operators=grids, **parts), tmp_path / "t.json"
    )
    flags = ("--trace", trace_of((0, 8, 1), (1, 16, 1)), "--cost-model", tmp_path / "t.json")
    grid = ("--head", "1,2", "--kv-blocks", 64)
    out = tmp_path / "out"
    result = runway("sweep", *flags, *grid, "--jobs", 1, "--no-figures", "--out", out)
    assert result.exit_code == 0, result.stderr
    shares = pq.read_table(out / "sweep.parquet")["extrapolated_share"].to_pylist()
    assert shares == [0, pytest.approx(4 / 6)]
    assert "extrapolated_share" in (out / "sweep.csv").read_text().splitlines()[0]
    said = "extrapolated: at most 66.7 % of the time was priced beyond the measured range"
    assert f"! 1 point (1) {said}" in result.stdout
    page = build_report(out)
    told = "1 point was priced beyond the measured range, for at most 66.7 % of its time."
    assert told in page.warnings
    assert "time priced beyond the measured range" in page.html()
