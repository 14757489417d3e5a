"""`runway search` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Runway = Callable[..., Result]


@pytest.fixture
def search(runway: Runway, per_token: Path, tmp_path: Path) -> Callable[..., Result]:
    """One request at a time, 20 ms each, at even gaps: the capacity is 50 a second."""
    served = (
        *("--requests", 100, "--rate", 10, "--arrival", "constant", "--input-tokens", "fixed:10"),
        *("--output-tokens", "fixed:1", "--cost-model", per_token, "--kv-blocks", 99),
        *("--max-num-seqs", 1, "--jobs", 1, "--replicates", 0, "--out", tmp_path / "out"),
    )
    return lambda *more: runway("search", *served, *more)


def test_the_answer_is_said_first_with_flags_and_files(
    search: Callable[..., Result], tmp_path: Path
) -> None:
    result = search("--slo", "ttft_max=30ms", "--over", "max_num_batched_tokens=5,10")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "generated workload, 100 requests, per-token (uncalibrated); SLO ttft max <= 30 ms"
    )
    assert lines[1].startswith("best: chunked, 50.")
    assert " token budget   5: -34 %   10: best" in result.stdout
    flags = "vllm serve MODEL --max-num-batched-tokens 10 --max-num-seqs 1"
    assert f"{flags} --num-gpu-blocks-override 100 (the nearest to chunked)" in result.stdout
    assert (tmp_path / "out" / "figures" / "attainment.png").is_file()
    again = search("--slo", "ttft_max=30ms", "--over", "max_num_batched_tokens=5,10")
    assert "kept from before" in again.stdout


def test_what_a_recommended_setting_does_not_change_is_told_once(
    search: Callable[..., Result], tmp_path: Path
) -> None:
    asked = ("--slo", "ttft_max=30ms", "--schedulers", "continuous,chunked", "--no-figures")
    result = search(*asked, "--kv-dtype", "fp8", "--chunk-size", 10)
    assert result.stdout.count("! kv_dtype fp8 is not used: prices are those of per-token") == 1
    assert result.stdout.count("! chunk_size 10 is not used by continuous") == 1
    answers = json.loads((tmp_path / "out" / "search.json").read_text())["answers"]
    assert [len(answer["notes"]) for answer in answers] == [2, 1]


def test_a_target_that_is_not_the_slo_is_told(search: Callable[..., Result]) -> None:
    """The search's SLO, not the one that a preset would bring."""
    result = search("--slo", "tpot=40ms,ttft=30ms", "--schedulers", "dynamic", "--no-figures")
    said = "! dynamic aims at tpot 50 ms, not at the SLO (tpot 40 ms): --tpot-target-ms 40\n"
    assert said in result.stdout


def test_a_kv_cache_given_in_bytes_is_blocks_in_the_flags(
    runway: Runway, per_token: Path, tmp_path: Path
) -> None:
    """1 GiB at 2 x 64 layers x 8 heads x 128 values x 2 bytes is 256 blocks; a null block more."""
    result = runway(
        *("search", "--requests", 20, "--rate", 10, "--input-tokens", "fixed:10"),
        *("--output-tokens", "fixed:1", "--cost-model", per_token, "--kv-cache-gib", 1),
        *("--model", "qwen3-32b", "--slo", "ttft_max=900ms", "--rates", "5:20"),
        *("--replicates", 0, "--jobs", 1, "--no-figures", "--out", tmp_path / "out"),
    )
    assert " --num-gpu-blocks-override 257 " in result.stdout


def test_json_is_the_file(search: Callable[..., Result], tmp_path: Path) -> None:
    result = search("--slo", "ttft_max=30ms", "--json", "--no-figures")
    assert json.loads(result.stdout) == json.loads((tmp_path / "out" / "search.json").read_text())


def test_no_rate_is_said_with_the_bound_and_by_the_exit_code(
    search: Callable[..., Result],
) -> None:
    result = search("--slo", "ttft_max=19ms", "--rates", "1:100")
    assert result.exit_code == 1
    assert (
        "chunked: no rate meets the SLO; even at 1 requests/s ttft_max is 20.0 ms, limit 19 ms"
    ) in result.stdout


def test_every_rate_is_said_with_the_bound(search: Callable[..., Result]) -> None:
    result = search("--slo", "ttft_max=9s", "--rates", "1:40")
    assert result.exit_code == 0
    assert "every rate that was tried meets the SLO, up to 40 requests/s" in result.stdout


def test_a_yaml_run_and_flags_are_one_question(
    runway: Runway, per_token: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(
        f"requests: 100\nrate: 10\narrival: constant\ninput_tokens: fixed:10\nkv_blocks: 99\n"
        f"output_tokens: fixed:1\ncost_model: {per_token}\nmax_num_seqs: 1\nscheduler: vllm\n"
    )
    out = tmp_path / "out"
    asked = ("--slo", "ttft_max=20ms", "--jobs", 1, "--replicates", 0, "--json", "--no-figures")
    report = json.loads(runway("search", file, *asked, "--out", out).stdout)
    (answer,) = report["answers"]
    assert answer["scheduler"] == "vllm"
    assert 49.4 < answer["rate"] <= 50
    assert answer["binding"] == ["ttft_max"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "no SLO: give at least one --slo"),
        (("--slo", "ttft_p99=1s", "--over", "chunk_sise"), "did you mean chunk_size"),
        (("--slo", "ttft_p99=1s", "--rates", "many"), "--rates 'many': must be LOW:HIGH"),
        (("--slo", "ttft_p99=1s", "--schedulers", "vlm"), "did you mean vllm"),
    ],
)
def test_bad_input_exits_with_2_and_writes_nothing(
    search: Callable[..., Result], tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    result = search(*more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert not (tmp_path / "out").exists()
