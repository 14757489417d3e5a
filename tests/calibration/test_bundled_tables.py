"""The bundled tables are what their own command makes of the measured logs."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from calibration.fit import quantities_of
from calibration.from_steps import main
from calibration.step_log import read_step_log
from costmodels import GPUS, find_model, kv_blocks_from_memory, load_cost_model
from costmodels.loading import BUNDLED_TABLES
from costmodels.model_memory import DEFAULT_ACTIVATION_RESERVE_BYTES
from costmodels.table import load_table
from simulator.plan import StepShape

TABLES = [BUNDLED_TABLES / f"b300-qwen3-32b-tp{tp}.yaml" for tp in (1, 2, 4)]


def numbers_of(document, at=""):
    """Every number of nested mappings and lists, by its path."""
    if isinstance(document, dict):
        parts = document.items()
    elif isinstance(document, list):
        parts = enumerate(document)
    else:
        return {at: document} if isinstance(document, int | float) else {}
    return {k: v for key, value in parts for k, v in numbers_of(value, f"{at}.{key}").items()}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_command_in_a_table_makes_it_again(path, tmp_path, measured_logs, capsys):
    """Coefficients, held-out and extrapolation errors, counts and fitted range."""
    table = load_table(path)
    words = shlex.split(str(table.provenance["command"]))[3:-3]
    words[0] = str(measured_logs / Path(words[0]).name)
    for key in ("device", "dtype", "model", "engine", "date", "source", "licence"):
        words += [f"--{key}", str(table.provenance[key])]
    words += ["--name", table.name, "--description", table.description, "--software", "vllm=0.20.1"]
    again = tmp_path / "again.yaml"
    assert main([*words, "-o", str(again)]) == 0
    for part in ("parameters", "held_out", "extrapolation", "fitted_range"):
        made = numbers_of(getattr(load_table(again), part))
        assert made == pytest.approx(numbers_of(getattr(table, part)), rel=1e-5), part
    assert load_table(again).provenance["samples"] == table.provenance["samples"]
    assert load_table(again).provenance["dropped"] == table.provenance["dropped"]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_cost_model_prices_the_log_as_the_fit_says(path, measured_logs):
    """Decode steps of the log through `step_ns`: the mean error that the table states."""
    table = load_table(path)
    model = load_cost_model(path.stem)
    log = read_step_log(measured_logs / Path(shlex.split(str(table.provenance["command"]))[3]).name)
    quantities = quantities_of(log)
    rows = np.flatnonzero((log.segment == "real") & (log.prefill_tokens == 0))
    columns = (quantities.decode_seqs, quantities.decode_context_tokens, quantities.longest_context)
    shapes = (StepShape((), *(round(column[row]) for column in columns)) for row in rows)
    predicted_ms = np.array([model.step_ns(shape) for shape in shapes]) / 1e6
    error = np.abs(predicted_ms / log.measured_ms[rows] - 1).mean()
    stated = table.extrapolation["decode_steps"]
    assert len(rows) == stated["n"]
    assert error == pytest.approx(stated["mean"], rel=1e-3)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_kv_capacity_of_the_bundled_tables_is_derived_from_memory(tp):
    model = find_model("qwen3-32b")
    blocks = kv_blocks_from_memory(
        gpu_memory_bytes=GPUS["b300-sxm"].memory_bytes,
        gpu_memory_utilization=0.9,
        weight_bytes=model.weight_bytes("bfloat16", tp),
        activation_reserve_bytes=DEFAULT_ACTIVATION_RESERVE_BYTES,
        kv_bytes_per_token=model.kv_bytes_per_token("bfloat16", tp),
        block_size=16,
    )
    assert load_cost_model(f"b300-qwen3-32b-tp{tp}").table.kv.blocks == blocks


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_attention_of_the_bundled_tables_is_tied_to_its_flops(path):
    parameters = load_table(path).parameters
    ratio = parameters["attention_ms_per_token_pair"] / parameters["prefill_ms_per_token"]
    assert ratio == pytest.approx(find_model("qwen3-32b").attention_tokens_per_pair, rel=1e-4)


def test_the_reconstruction_needs_no_guess_in_the_real_segment(measured_logs):
    """Every finished prompt's length is determined by the log."""
    from calibration.reconstruct import prefill_of

    for tp in (1, 2, 4):
        log = read_step_log(measured_logs / f"qwen3-32b_tp{tp}_ep1.steps.csv.gz")
        prefill = prefill_of(log)
        assert prefill.exact[log.segment == "real"].all()
        assert prefill.finished[log.segment == "real"].sum() == 128
