"""Cost models by name and by file."""

import subprocess
import sys

import pytest

from costmodels import (
    DEFAULT_COST_MODEL,
    LinearCostModel,
    list_cost_models,
    load_cost_model,
    save_table,
)
from costmodels.table import hand_written
from simulator.cost_model import CostModel
from simulator.errors import ConfigError, TableFormatError
from simulator.plan import StepShape


def test_the_default_is_measured_and_says_how_well():
    model = load_cost_model()
    assert isinstance(model, CostModel)
    assert model.table.name == DEFAULT_COST_MODEL
    assert model.stamp is None
    assert model.needs_longest_context
    assert model.table.held_out is not None
    assert model.table.held_out["n"] == 45
    assert model.table.provenance["licence"] == "Apache-2.0"


def test_the_default_carries_its_kv_capacity():
    """0.9 x 288 GB - 65.5 GB of weights - 4 GiB = 189.4 GB: 45,151 blocks of 4 MiB."""
    kv = load_cost_model().table.kv
    assert kv is not None
    assert (kv.blocks, kv.block_size) == (45_151, 16)
    assert kv.origin.startswith("derived")


NEED_A_MODEL = ("roofline", "aiconfigurator:SYSTEM")


@pytest.mark.parametrize(
    "name", [name for name, _ in list_cost_models() if name not in NEED_A_MODEL]
)
def test_every_listed_model_loads_and_prices(name):
    model = load_cost_model(name)
    assert model.step_ns(StepShape(((256, 0),), 4, 4000, 1000)) > model.step_ns(
        StepShape((), 4, 4000, 1000)
    )


def test_more_gpus_are_faster():
    shape = StepShape(((512, 0),), 16, 40_000, 4000)
    prices = [load_cost_model(f"b300-qwen3-32b-tp{tp}").step_ns(shape) for tp in (1, 2, 4)]
    assert prices == sorted(prices, reverse=True)


def test_the_list_shows_held_out_errors():
    listed = dict(list_cost_models())
    assert "held-out error median" in listed[DEFAULT_COST_MODEL]
    assert "uncalibrated" in listed["roofline"]


def test_a_table_file_is_a_cost_model(tmp_path):
    path = tmp_path / "mine.yaml"
    save_table(
        hand_written("linear", "ten and one", {"step_ms": 10, "decode_ms_per_sequence": 1}), path
    )
    model = load_cost_model(path)
    assert isinstance(model, LinearCostModel)
    assert model.step_ns(StepShape((), 4, 400)) == 14_000_000


@pytest.mark.parametrize("kind", ["constant", "lesson", "roofline"])
def test_every_kind_loads_from_a_file(tmp_path, kind):
    parameters = {
        "constant": {"prefill_ms": 80.0, "decode_ms": 8.0},
        "lesson": {},
        "roofline": {"gpu": "h100-sxm", "model": "llama-3.1-8b", "tensor_parallel": 2},
    }[kind]
    path = tmp_path / "mine.yaml"
    save_table(hand_written(kind, "a test", parameters), path)
    model = load_cost_model(path)
    assert model.table.kind == kind
    assert model.stamp is not None
    assert model.stamp.startswith("uncalibrated")


def test_a_roofline_is_the_same_after_its_table_was_saved(tmp_path):
    model = load_cost_model("roofline", model="qwen3-14b", device="h200-sxm", tp=2)
    save_table(model.table, tmp_path / "saved.yaml")
    again = load_cost_model(tmp_path / "saved.yaml")
    shape = StepShape(((300, 50),), 9, 9_000)
    assert again.step_ns(shape) == model.step_ns(shape)
    assert again.table.kv == model.table.kv


def test_a_table_that_prices_nothing_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    save_table(hand_written("linear", "nothing", {"step_ms": 0.0}), path)
    with pytest.raises(TableFormatError, match=r"mine.yaml: every coefficient is 0"):
        load_cost_model(path)


def test_roofline_takes_model_device_and_tensor_parallel():
    model = load_cost_model("roofline", model="qwen3-32b", device="h100-sxm", tp=2, kv_dtype="fp8")
    assert model.table.parameters["tensor_parallel"] == 2
    assert model.table.parameters["kv_dtype"] == "fp8"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "b300-qwen3-32b-tp3",
            {},
            r"is unknown, did you mean b300-qwen3-32b-tp\d\? .*lesson, roof",
        ),
        ("xyzzy", {}, r"'xyzzy' is unknown \(known: b300-qwen3-32b-tp1, .*\.yaml cost table\)"),
        ("roofline", {}, r"'roofline' needs a model .*llama-3.1-8b.* and a device \(a100-80g-sxm"),
        ("roofline", {"model": "qwen3-32b", "device": "h100"}, r"'h100' is unknown, did you mean"),
        ("roofline", {"model": "gpt", "device": "l40s"}, r"'gpt' is neither a config.json nor"),
        ("lesson", {"device": "l40s"}, r"device 'l40s' has no effect on cost model 'lesson'"),
    ],
)
def test_what_cannot_be_loaded_is_explained(name, options, message):
    with pytest.raises(ConfigError, match=message):
        load_cost_model(name, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "llama-3.1-8b"}, r"model 'llama-3.1-8b': .* was measured with 'Qwen/Qwen3-32B'"),
        ({"model": "other/gpt.json"}, r"model 'other/gpt.json': .* take its own"),
        ({"device": "h100-sxm"}, r"device 'h100-sxm': .*B300.*\(there are b300-qwen3-32b-tp1, "),
        ({"device": "cpu"}, r"device 'cpu': .* or measure yours with runway calibrate"),
        ({"tp": 4}, r"tensor parallel size '4': .* was measured with 1: take its own"),
        ({"dtype": "fp8"}, r"dtype 'fp8': .* was measured with 'bf"),
    ],
)
def test_a_table_of_another_model_or_device_is_refused_with_what_there_is(options, message):
    with pytest.raises(ConfigError, match=message):
        load_cost_model("b300-qwen3-32b-tp1", **options)


def test_a_table_may_be_asked_for_what_it_is_of():
    given = {"model": "qwen3-32b", "device": "b300-sxm", "tp": 1, "dtype": "bfloat16"}
    assert load_cost_model("b300-qwen3-32b-tp1", **given).table.name == "b300-qwen3-32b-tp1"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(TableFormatError, match=r"absent.yaml: no such file"):
        load_cost_model(tmp_path / "absent.yaml")


def test_importing_and_loading_needs_no_heavy_library():
    program = (
        "import sys, costmodels; costmodels.load_cost_model(); "
        "print([m for m in ('pandas', 'scipy', 'pydantic', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
