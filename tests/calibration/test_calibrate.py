"""A small model, measured for real on this CPU: the table loads, prices, resumes and owns up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch")

from calibration.__main__ import main as python_m  # noqa: E402  # after the skip
from calibration.calibrate import Settings, calibrate, limits_of  # noqa: E402
from calibration.device import check_device  # noqa: E402
from calibration.errors import CalibrationError  # noqa: E402
from calibration.grid import Shape  # noqa: E402
from calibration.measuring import StepTimer  # noqa: E402
from calibration.predict import Grids  # noqa: E402
from calibration.sizes import find_sizes  # noqa: E402
from costmodels import load_cost_model  # noqa: E402
from experiments.cli import main as runway  # noqa: E402
from simulator import StepShape  # noqa: E402

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
LIMITS = {"max_num_batched_tokens": 64, "max_num_seqs": 4, "max_model_len": 64}
FLAGS = [
    *("--device", "cpu", "--dtype", "float32", "--time-budget", "0.3", "--threads", "1"),
    *("--max-num-batched-tokens", "64", "--max-num-seqs", "4", "--max-model-len", "64"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The path of a very small model's config.json."""
    path = tmp_path_factory.mktemp("model") / "small.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture(autouse=True)
def threads():
    """The number of threads is the process's: put it back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def settings(model, folder, **changes):
    given = {"time_budget_s": 0.3, "threads": 1, **LIMITS, **changes}
    return Settings(model=str(model), output=folder / "table.json", **given)


def grids_in(path):
    """The grids of a table file, for `calibration`'s own prices."""
    table = json.loads(path.read_text())
    counted = table["operators"]["counted"]
    by_tokens, by_sequences = (
        {name: each["points"] for name, each in counted.items() if each["axis"] == axis}
        for axis in ("tokens", "sequences")
    )
    attention = [tuple(point) for point in table["operators"]["attention"]]
    parameters = table["parameters"]
    return Grids(parameters["layers"], by_tokens, by_sequences, attention, parameters["host_us"])


def test_the_table_loads_with_provenance_and_its_error(model, tmp_path):
    outcome = calibrate(settings(model, tmp_path), command="as called")
    table = load_cost_model(outcome.output).table
    assert (table.kind, table.name) == ("operators", "small-cpu-float32")
    assert table.held_out["n"] == len(outcome.errors) >= 3
    provenance = table.provenance
    assert (provenance["model"], provenance["dtype"]) == ("small", "float32")
    assert (provenance["command"], provenance["software"]["torch"]) == (
        "as called",
        torch.__version__,
    )
    assert "1 threads" in provenance["device"]
    assert provenance["attention_backend"].startswith("torch scaled_dot_product_attention")
    # 2 layers x 2 x 2 KV heads x 8 x 4 bytes = 256 bytes a token; 4 GiB hold 2**24 of them.
    assert table.kv.blocks == 2**20
    assert table.max_model_len == 128
    lines = (tmp_path / "table.json.partial").read_text().splitlines()[1:]
    samples = [json.loads(line)["samples_ns"] for line in lines]
    assert provenance["samples"] == sum(len(next(iter(laps.values()))) for laps in samples)


def test_the_error_is_that_of_the_cost_model_that_reads_the_table(model, tmp_path):
    """`calibration` works out its prices without `costmodels`: they must be the same prices."""
    path = calibrate(settings(model, tmp_path)).output
    cost_model, grids = load_cost_model(path), grids_in(path)
    for chunk, past, seqs, context in (
        *((1, 0, 0, 0), (16, 0, 0, 0), (23, 17, 0, 0), (64, 0, 0, 0), (5, 0, 0, 0)),
        *((0, 0, 1, 16), (0, 0, 3, 29), (0, 0, 4, 63), (16, 0, 4, 63), (16, 0, 2, 20)),
        *((33, 0, 3, 40), (20, 8, 1, 20)),
    ):
        shape = StepShape(((chunk, past),) if chunk else (), seqs, seqs * context)
        price_us = grids.step_us(Shape(chunk, past, seqs, context))
        assert cost_model.step_ns(shape) == pytest.approx(1e3 * price_us, abs=2)


def test_a_killed_run_resumes_and_measures_only_the_rest(model, tmp_path):
    def kill(share, done, total):
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(settings(model, tmp_path), kill)
    partial = tmp_path / "table.json.partial"
    before = partial.read_text()
    assert len(before.splitlines()) == 1 + 7
    assert not (tmp_path / "table.json").exists()
    calibrate(settings(model, tmp_path, resume=True))
    after = partial.read_text()
    assert after.startswith(before)
    first = [json.loads(line) for line in after.splitlines()[1:]]
    jobs = [(*line["shape"], "whole step" in line["samples_ns"]) for line in first]
    once = jobs[: len({*jobs})]
    assert len(once) == len({*once}), "a shape was timed twice before every shape was timed once"


def test_a_shape_that_does_not_fit_the_memory_is_skipped_and_named(model, tmp_path, monkeypatch):
    kernels = StepTimer.kernels

    def scarce(timer, shape, effort):
        if shape.chunk == 64:
            raise torch.OutOfMemoryError("tried to allocate too much")
        return kernels(timer, shape, effort)

    monkeypatch.setattr(StepTimer, "kernels", scarce)
    outcome = calibrate(settings(model, tmp_path))
    assert outcome.skipped == {Shape(64, 0, 0, 0): "out of memory: tried to allocate too much"}
    assert "skipped (64, 0, 0, 0): out of memory" in outcome.summary
    assert "skipped [64, 0, 0, 0]" in load_cost_model(outcome.output).table.provenance["note"]
    assert all(point[0] != 64 for point in grids_in(outcome.output).attention)


def test_runway_calibrate_and_then_simulate(model, tmp_path):
    table = tmp_path / "table.json"
    done = CliRunner().invoke(
        runway, ["calibrate", "--model", str(model), *FLAGS, "-o", str(table)]
    )
    assert done.exit_code == 0, done.output
    assert "held-out error median" in done.stdout
    words = ["--requests", "3", "--rate", "5", "--input-tokens", "20", "--output-tokens", "5"]
    done = CliRunner().invoke(runway, ["simulate", *words, "--cost-model", str(table), "--quiet"])
    assert done.exit_code == 0, done.output


def test_python_m_calibration_takes_the_same_flags(model, tmp_path, capsys):
    table = tmp_path / "table.json"
    assert python_m(["--model", str(model), *FLAGS, "-o", str(table), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    command = load_cost_model(table).table.provenance["command"]
    assert command.startswith("python -m calibration --model ")
    assert command.endswith("--threads 1 -o table.json")


OF_TORCH = (
    *("torch", "torchgen", "functorch", "numpy", "numpy.libs", "sympy", "mpmath", "networkx"),
    *("jinja2", "markupsafe", "filelock", "fsspec", "typing_extensions.py"),
)
"""All that `pip install torch numpy` brings to a CPU, as found beside torch."""


def test_torch_and_numpy_are_enough(model, tmp_path):
    """In a folder of packages that holds nothing else."""
    packages, table = tmp_path / "packages", tmp_path / "table.json"
    packages.mkdir()
    installed = Path(torch.__file__).parents[1]
    for name in OF_TORCH:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    (packages / "calibration").symlink_to(Path(__file__).parents[2] / "calibration")
    program = (
        f"import runpy, sys; sys.path.append({str(packages)!r}); sys.argv[0] = 'calibration'\n"
        "runpy.run_module('calibration', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, "--model", str(model), *FLAGS, "-o", table],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert load_cost_model(table).table.is_measured


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--modl", "x"], "no option --modl"),
        ([], "--model is missing"),
        (["--model", "nope.json"], "nope.json: no such file"),
        (["--model", "qwen3-32b", "--device", "tpu"], "device 'tpu' must be cpu, cuda or cuda:N"),
        (["--model", "qwen3-32b", "--dtype", "fp8"], "dtype 'fp8' is not one of float32"),
        (["--model", "qwen3-32b", "--time-budget", "0"], "time budget is 0.0 s: must be above 0"),
        (["--model", "qwen3-32b", "--threads", "0"], "threads is 0: must be at least 1"),
        (["--from-steps", "nope.csv"], "nope.csv: no such file"),
    ],
)
@pytest.mark.parametrize("command", ["runway", "python -m"])
def test_bad_input_is_one_message_and_exit_2(command, words, said, tmp_path, capfd):
    words = [*words, "-o", str(tmp_path / "table.json")]
    if command == "runway":
        with pytest.raises(SystemExit) as stopped:
            runway(["calibrate", *words])
        code = stopped.value.code
    else:
        code = python_m(words)
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_model_beyond_the_memory_is_refused_with_both_sizes(monkeypatch, tmp_path):
    monkeypatch.setattr("calibration.calibrate.memory_bytes", lambda device: 8 << 30)
    given = Settings(model="llama-3.1-8b", output=tmp_path / "t.json")
    with pytest.raises(CalibrationError, match=r"29\.9 GiB of weights .* cpu has 8\.0 GiB free"):
        limits_of(given, find_sizes("llama-3.1-8b"))


def test_a_cuda_device_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CalibrationError, match="sees no CUDA device"):
        check_device("cuda:0", "bfloat16")
