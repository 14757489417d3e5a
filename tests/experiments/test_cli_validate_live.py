"""`runway validate live`: a very small model, calibrated and served on this CPU."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch")

from experiments.cli import main  # noqa: E402  # after the skip

Runway = Callable[..., Result]

CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
}
MODEL = ("--device", "cpu", "--dtype", "float32")
TRACE = (
    *("--requests", 6, "--rate", 200, "--input-tokens", "uniform:4:40"),
    *("--output-tokens", "uniform:1:8", "--max-num-batched-tokens", 32, "--max-num-seqs", 4),
)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """config.json and a table of it, of CPU time, so that a busy machine does not matter."""
    folder = tmp_path_factory.mktemp("live")
    model, table = folder / "small.json", folder / "table.json"
    model.write_text(json.dumps(CONFIG))
    flags = ["--time-budget", "0.3", "--threads", "1", "--clock", "cpu", "--quiet"]
    limits = ["--max-num-batched-tokens", "64", "--max-num-seqs", "4", "--max-model-len", "64"]
    words = ["calibrate", "--model", str(model), *MODEL, *flags, *limits, "-o", str(table)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return model, table


def test_the_report_has_errors_spread_and_the_same_schedule(
    calibrated: tuple[Path, Path], runway: Runway, tmp_path: Path
) -> None:
    model, table = calibrated
    out = tmp_path / "live"
    flags = ("--model", model, *MODEL, "--cost-model", table, "--out", out, "--repeats", 2)
    done = runway("validate", "live", *flags, *TRACE, "--calibrate-between", 0.05, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report == json.loads((out / "report.json").read_text())
    assert sorted(report["errors"]) == ["e2el_ms", "step_ms", "tpot_ms", "ttft_ms"]
    for name, errors in report["errors"].items():
        assert sorted(errors) == ["mape", "mean", "p50", "p99"]
        values = report["values"][name]
        for statistic in ("mean", "p50", "p99"):
            measured, predicted = (values[side][statistic] for side in ("measured", "predicted"))
            assert errors[statistic] == pytest.approx(predicted / measured - 1)
            assert report["spread"][name][statistic] >= 0
        assert errors["mape"] >= 0
    assert report["schedule_identical_given_times"] is True
    assert report["clock"] == "cpu"
    assert (report["requests"], report["finished"], report["repeats"]) == (6, 6, 2)
    requests = pq.read_table(out / "requests.parquet").to_pydict()
    steps = pq.read_table(out / "steps.parquet").to_pydict()
    assert {"simulated_ttft_ms", "served1_ttft_ms", "served2_e2el_ms"} <= {*requests}
    assert steps["run"].count(1) == report["steps"]["served"][0]
    assert steps["run"].count(0) == report["steps"]["simulated"]
    assert (out / "live.png").stat().st_size > 10_000
    assert report["time_beyond_table"] == 0


def test_without_a_rate_the_table_says_what_the_device_can_serve(
    calibrated: tuple[Path, Path], runway: Runway
) -> None:
    model, table = calibrated
    words = [word for pair in zip(TRACE[::2], TRACE[1::2], strict=True) for word in pair]
    rateless = words[:2] + words[4:]
    done = runway("validate", "live", "--model", model, "--cost-model", table, *rateless)
    assert done.exit_code == 0, done.output
    assert "6 of 6 requests, 1 served run(s)" in done.stdout
    assert "the same requests in every one of them" in done.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--model": "no.json"}, "no.json: no such file"),
        ({"--model": "qwen3-14b"}, "is of small (llama, 2 layers, hidden 32"),
        ({"--cost-model": "no.yaml"}, "no.yaml"),
        ({"--cost-model": "lesson"}, "is not measured"),
        ({"--cost-model": "b300-qwen3-32b-tp1"}, "is of Qwen/Qwen3-32B"),
        ({"--dtype": "bfloat16"}, "is of dtype float32, to serve is bfloat16"),
        ({"--dtype": "fp8"}, "dtype 'fp8' is not one of float32"),
        ({"--device": "tpu"}, "device 'tpu' must be cpu, cuda or cuda:N"),
        ({"--device": "cuda:0"}, "sees no CUDA device"),
        ({"--scheduler": "vlm"}, "scheduler 'vlm' is none of"),
        ({"--rate": "-1"}, "rate"),
        ({"--input-tokens": "fixed:300"}, "no request can be served: the shortest has 3"),
        ({"--trace": "no.csv"}, "no.csv"),
        ({"--reqests": "3"}, "no option --reqests, did you mean --requests?"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(
    change: dict[str, str],
    said: str,
    calibrated: tuple[Path, Path],
    runway: Runway,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model, table = calibrated
    given = {"--model": model, "--cost-model": table, "--out": tmp_path / "out", **change}
    done = runway("validate", "live", *(word for pair in given.items() for word in pair))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_table_of_another_device_is_refused(
    calibrated: tuple[Path, Path], runway: Runway, tmp_path: Path
) -> None:
    model, table = calibrated
    document = json.loads(table.read_text())
    document["provenance"]["device"] = "Another CPU (64 CPUs, 1 threads)"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(document))
    done = runway("validate", "live", "--model", model, "--cost-model", other)
    assert done.exit_code == 2
    assert "was measured on Another CPU (64 CPUs, 1 threads), this is" in done.stderr
    assert "measure one: runway calibrate --device cpu --dtype float32" in done.stderr


def test_more_samples_need_those_that_calibration_left(
    calibrated: tuple[Path, Path], runway: Runway, tmp_path: Path
) -> None:
    model, table = calibrated
    alone = tmp_path / "alone.json"
    alone.write_text(table.read_text())
    flags = ("--model", model, "--cost-model", alone, *TRACE, "--calibrate-between", 1)
    done = runway("validate", "live", *flags)
    assert done.exit_code == 2
    assert "alone.json.partial: no such file" in done.stderr
