"""`runway simulate` from the command line: numbers, files, and refusals that leave nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import Result

Runway = Callable[..., Result]
TraceOf = Callable[..., Path]
SMALL = ("--requests", 20, "--rate", 4, "--cost-model", "lesson", "--kv-blocks", 4000)


def summary_of(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    parsed: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)
    return parsed


def refusal_of(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("Error: ")
    return result.stderr


@pytest.mark.parametrize(
    ("flags", "ttft_ms", "steps", "effective"),
    [
        (("--chunk-size", 1), 88, 8, 1),
        (("--chunk-size", 8), 18, 1, 8),
        (("--chunk-size", 64), 18, 1, 64),
        (("--chunk-size", 64, "--max-num-batched-tokens", 4), 28, 2, 4),
        (("--chunk-size", -1, "--token-budget", "none"), 18, 1, None),
        (("--long-prefill-token-threshold", 1), 88, 8, 1),
        (("--max-num-batched-tokens", 100_000, "--max-model-len", 512), 18, 1, 100_000),
    ],
)
def test_extreme_chunk_sizes(
    runway: Runway,
    trace_of: TraceOf,
    per_token: Path,
    flags: tuple[object, ...],
    ttft_ms: float,
    steps: int,
    effective: int | None,
) -> None:
    """U04: one 8-token prompt; a step costs 10 + 1 x tokens."""
    trace = trace_of((0, 8, 1))
    common = ("--trace", trace, "--cost-model", per_token, "--kv-blocks", 64, "--json")
    summary = summary_of(runway("simulate", *common, *flags))
    assert summary["ttft_ms"]["mean"] == ttft_ms
    assert summary["run"]["steps"] == steps
    assert summary["provenance"]["scheduler"]["effective_chunk_size"] == effective


def test_chunk_size_zero_is_refused_and_says_what_means_off(runway: Runway) -> None:
    """U04."""
    assert "-1 or none for no chunking" in refusal_of(runway("simulate", *SMALL, "--chunk-size", 0))


def test_a_budget_below_the_sequences_is_refused(runway: Runway, tmp_path: Path) -> None:
    """U03."""
    out = tmp_path / "out"
    limits = ("--max-num-batched-tokens", 3, "--max-num-seqs", 4)
    text = refusal_of(runway("simulate", *SMALL, *limits, "--out", out))
    assert "max_num_batched_tokens 3 is below max_num_seqs 4" in text
    assert not out.exists()


@pytest.mark.parametrize("budget", ["0", "-1", "2.5", "abc"])
def test_an_impossible_budget_is_refused(runway: Runway, budget: str) -> None:
    """U03."""
    text = refusal_of(runway("simulate", *SMALL, "--max-num-batched-tokens", budget))
    assert f"--max-num-batched-tokens {budget!r}: must be a whole number of at least 1" in text


def test_a_request_that_can_never_fit_is_rejected_and_counted(
    runway: Runway, trace_of: TraceOf, per_token: Path, tmp_path: Path
) -> None:
    """U15: 64 blocks of 16 hold 1,024 tokens; the second request is served as if alone."""
    trace = trace_of((0, 2000, 1), (0.001, 100, 1))
    flags = ("--trace", trace, "--cost-model", per_token, "--kv-blocks", 64, "--block-size", 16)
    summary = summary_of(runway("simulate", *flags, "--json", "--out", tmp_path / "out"))
    assert summary["rejected_by_reason"] == {"exceeds_kv_capacity": 1}
    assert (summary["submitted"], summary["finished"], summary["rejected"]) == (2, 1, 1)
    assert summary["ttft_ms"]["mean"] == 110
    assert summary["goodput_fraction"] == 0.5
    table = pq.read_table(tmp_path / "out" / "requests.parquet").to_pydict()
    assert table["state"] == ["rejected", "finished"]
    assert table["ttft_ms"] == [None, 110.0]


def test_rejections_are_said_aloud(runway: Runway, trace_of: TraceOf, per_token: Path) -> None:
    """U15."""
    trace = trace_of((0, 600, 1), (0, 500, 100), (0, 10, 1))
    flags = ("--trace", trace, "--cost-model", per_token, "--kv-blocks", 64)
    result = runway("simulate", *flags, "--max-model-len", 512)
    assert "! requests rejected: 2 exceeds_model_len" in result.stdout
    assert "! uncalibrated: prices are hand-written" in result.stdout


FILES = {
    "empty.csv": ("", "no requests"),
    "header.csv": ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests"),
    "column.csv": (
        "TIMESTAMP,ContextTokens,generated_tokens\n2023-11-16 18:17:03.9799600,4808,10\n",
        "GeneratedTokens",
    ),
    "cell.csv": ("arrival_s,prompt_tokens,output_tokens\n0,12.5,1\n", "12.5"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_what_it_claims_is_refused(
    runway: Runway, tmp_path: Path, name: str
) -> None:
    """U12, U13."""
    text, problem = FILES[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    said = refusal_of(runway("simulate", "--trace", path, *SMALL[4:], "--out", out))
    assert problem in said
    assert name in said
    assert not out.exists()
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", [".", "missing.csv"])
def test_a_folder_or_missing_file_is_refused(runway: Runway, tmp_path: Path, path: str) -> None:
    """U12."""
    refusal_of(runway("simulate", "--trace", tmp_path / path, *SMALL[4:]))


def test_a_filter_that_keeps_nothing_is_refused_with_the_count(
    runway: Runway, trace_of: TraceOf
) -> None:
    """U12."""
    trace = trace_of((0, 8, 1), (1, 9, 1))
    text = refusal_of(runway("simulate", "--trace", trace, *SMALL[4:], "--min-prompt-tokens", 100))
    assert "min_prompt 100 keeps none of the 2 requests" in text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--max-num-seq", 4), "no option --max-num-seq, did you mean --max-num-seqs?"),
        (("--scheduler", "chunkd"), "did you mean chunked?"),
        (("--cost-model", "leson"), "did you mean lesson?"),
        (("--deliver", "strem"), "--deliver 'strem': must be stream or batch_end, did you mean"),
        (("--trace", "a.csv"), "--requests means nothing with --trace; use --head N"),
        (("--preset", "chat", "--workload", "bundled"), "both name a workload: give one"),
        (("--users", 4), "users make a closed loop"),
        (("--window-s", "9:2"), "must be START:END in seconds"),
        (("--slo", "tft=5ms"), "did you mean ttft?"),
        (("--kv-bytes", 1), "--kv-blocks and --kv-bytes both set the KV cache: give one"),
    ],
)
def test_bad_flags_are_refused_with_one_message(
    runway: Runway, arguments: tuple[object, ...], problem: str
) -> None:
    assert problem in refusal_of(runway("simulate", *SMALL, *arguments))


def test_without_a_workload_the_message_lists_the_ways(runway: Runway) -> None:
    text = refusal_of(runway("simulate", *SMALL[4:]))
    assert "--trace FILE, --preset NAME, --workload bundled, or --requests N" in text


def test_without_a_kv_capacity_the_message_lists_the_ways(runway: Runway) -> None:
    text = refusal_of(runway("simulate", *SMALL[:6]))
    assert "--kv-blocks, or --kv-cache-gib with --model, or --gpu-memory-gib with --model" in text


def test_a_misspelt_key_in_the_file_is_refused_with_its_line(
    runway: Runway, tmp_path: Path
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("requests: 5\nrat: 4\n", encoding="utf-8")
    text = refusal_of(runway("simulate", path))
    assert f"{path}:2:1: rat: no such setting, did you mean rate?" in text


def test_an_out_that_cannot_be_written_is_refused_before_simulating(
    runway: Runway, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    text = refusal_of(runway("simulate", *SMALL, "--out", tmp_path / "file" / "out"))
    assert "cannot write results to" in text
    assert (tmp_path / "file").read_text() == "mine"


def test_every_flag_may_be_a_yaml_key(runway: Runway, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    held = {
        "requests": 20,
        "rate": 4,
        "cost-model": "lesson",
        "kv_blocks": 4000,
        "token_budget": 512,
        "slo": {"ttft": "100ms"},
        "json": True,
    }
    path.write_text(yaml.safe_dump(held), encoding="utf-8")
    from_file = summary_of(runway("simulate", path, "--no-timing"))
    flags = (*SMALL, "--token-budget", 512, "--slo", "ttft=100ms", "--json", "--no-timing")
    assert from_file == summary_of(runway("simulate", *flags))


def test_a_saved_config_repeats_the_run_byte_for_byte(runway: Runway, tmp_path: Path) -> None:
    flags = (*SMALL, "--burstiness", "inf", "--steps", "--no-timing", "--quiet")
    first, second = tmp_path / "first", tmp_path / "second"
    assert runway("simulate", *flags, "--out", first).stdout == ""
    assert runway("simulate", first / "config.yaml", "--quiet", "--out", second).exit_code == 0
    tables = ("preemptions", "requests", "steps", "tokens")
    names = sorted(["config.yaml", *(f"{name}.parquet" for name in tables), "summary.json"])
    assert sorted(path.name for path in first.iterdir()) == names
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_with_timing_only_wall_s_differs(runway: Runway) -> None:
    first, second = (summary_of(runway("simulate", *SMALL, "--json")) for _ in range(2))
    assert first["run"].pop("wall_s") > 0
    assert second["run"].pop("wall_s") > 0
    assert first == second


def test_a_table_is_printed_and_fits_a_pipe(runway: Runway) -> None:
    lines = runway("simulate", *SMALL).stdout.splitlines()
    assert any(line.split()[:1] == ["TTFT"] and line.split()[-1] == "20" for line in lines)
    assert max(map(len, lines)) <= 140
    assert "20 of 20 requests finished" in lines[-1]


@pytest.mark.parametrize(
    ("rows", "notice"),
    [
        ("arrival_s,prompt_tokens,output_tokens\n5,8,1\n0,8,1\n", "input was not sorted"),
        ("num_prefill_tokens,num_decode_tokens\n8,1\n8,1\n", "no arrival times in the file"),
    ],
)
def test_what_a_file_did_unasked_is_said(
    runway: Runway, tmp_path: Path, per_token: Path, rows: str, notice: str
) -> None:
    """U14."""
    trace = tmp_path / "trace.csv"
    trace.write_text(rows, encoding="utf-8")
    flags = ("--trace", trace, "--cost-model", per_token, "--kv-blocks", 64)
    lines = runway("simulate", *flags).stdout.splitlines()
    assert lines[0] == "workload trace.csv, 2 requests"
    assert any(line.startswith(f"! {notice}") for line in lines)


def test_a_narrow_terminal_loses_no_label_and_no_digit(
    runway: Runway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.cli.terminal.PIPED_WIDTH", 40)
    shown = runway("simulate", *SMALL, "--no-timing").stdout
    monkeypatch.setattr("experiments.cli.terminal.PIPED_WIDTH", 200)
    assert shown == runway("simulate", *SMALL, "--no-timing").stdout


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--slo", "tftt=1"), "--slo 'tftt=1': must limit ttft, tpot"),
        (("--out", ""), "--out '': must not be empty"),
    ],
)
def test_a_flag_is_quoted_as_it_was_typed(
    runway: Runway, flags: tuple[object, ...], problem: str
) -> None:
    assert problem in refusal_of(runway("simulate", *SMALL, *flags))


def test_a_setting_the_scheduler_does_not_use_is_said_and_recorded(runway: Runway) -> None:
    flags = (*SMALL, "--scheduler", "static", "--chunk-size", 256)
    note = "chunk_size 256 is not used by static"
    assert f"! {note}" in runway("simulate", *flags).stdout
    assert summary_of(runway("simulate", *flags, "--json"))["provenance"]["notes"] == [note]


def test_provenance_names_inputs_by_content_and_nothing_of_the_machine(
    runway: Runway, trace_of: TraceOf, per_token: Path
) -> None:
    trace = trace_of((0, 8, 1), (1, 8, 1))
    flags = ("--trace", trace, "--cost-model", per_token, "--kv-blocks", 64, "--rate", 2)
    summary = summary_of(runway("simulate", *flags, "--json"))
    workload = summary["provenance"]["workload"]
    assert workload["file"]["name"] == "trace.csv"
    assert len(workload["file"]["sha256"]) == 64
    assert workload["notes"][-1] == "mean rate set to 2 requests/s"
    assert summary["cost_model"]["file"]["name"] == "per-token.yaml"
    assert summary["cost_model"]["stamp"] == "uncalibrated: prices are hand-written for a test"
    assert not {"date", "host", "time"} & set(summary["provenance"])


def test_kv_capacity_from_memory_and_model(runway: Runway) -> None:
    """Llama 3.1 8B in bf16: 131,072 bytes a token, so 1 GiB holds 8,192 tokens, 512 blocks."""
    flags = (*SMALL[:6], "--kv-cache-gib", 1, "--model", "llama-3.1-8b", "--json")
    cache = summary_of(runway("simulate", *flags))["provenance"]["kv_cache"]
    assert (cache["blocks"], cache["block_size"]) == (512, 16)
    halved = summary_of(runway("simulate", *flags, "--kv-dtype", "fp8"))
    assert halved["provenance"]["kv_cache"]["blocks"] == 1024
    assert halved["provenance"]["notes"] == [
        "kv_dtype fp8 sizes the KV cache; prices stay those of lesson"
    ]


def test_a_closed_loop_never_has_more_than_its_users_in_flight(runway: Runway) -> None:
    flags = ("--requests", 40, "--users", 3, "--think-time-s", 0.1, *SMALL[4:], "--json")
    summary = summary_of(runway("simulate", *flags))
    assert summary["in_system"]["max"] == 3
    assert summary["finished"] == 40


def test_a_users_policy_runs_from_its_file(runway: Runway, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from simulator import ChunkedPrefillScheduler\n"
        "class Mine(ChunkedPrefillScheduler):\n"
        "    name = 'mine'\n",
        encoding="utf-8",
    )
    own = summary_of(runway("simulate", *SMALL, "--scheduler", f"{path}:Mine", "--json"))
    ours = summary_of(runway("simulate", *SMALL, "--json"))
    assert own["provenance"]["scheduler"]["name"] == "mine"
    assert own["ttft_ms"] == ours["ttft_ms"]


def test_a_users_policy_that_fails_is_named_with_its_line(runway: Runway, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("class Bad:\n    def plan(self, view):\n        return view.oops\n")
    text = refusal_of(runway("simulate", *SMALL, "--scheduler", f"{path}:Bad"))
    assert f"AttributeError: 'EngineView' object has no attribute 'oops' at {path}:3" in text
