"""A model's shapes, from its config.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibration.errors import CalibrationError
from calibration.sizes import find_sizes
from costmodels import find_model

TINY = Path(__file__).with_name("tiny.json")


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-14b", "qwen3-32b", str(TINY)])
def test_sizes_are_those_that_the_cost_models_read(name):
    sizes, model = find_sizes(name), find_model(name)
    matrices = model.layers * model.layer_weights
    tables = model.lm_head_weights * (1 if model.ties_embeddings else 2)
    assert sizes.weights == matrices + tables
    assert 2 * sizes.kv_elements_per_token == model.kv_bytes_per_token("bfloat16")
    assert (sizes.name, sizes.max_model_len) == (model.name, model.max_model_len)


def config(folder, **changes):
    raw = json.loads(TINY.read_text()) | changes
    path = folder / "config.json"
    path.write_text(json.dumps({key: value for key, value in raw.items() if value is not None}))
    return path


def test_the_folder_of_a_config_is_as_good_and_names_the_model(tmp_path):
    assert find_sizes(config(tmp_path).parent).name == tmp_path.name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": None}, "hidden_size is None: must be a whole number, at least 1"),
        ({"vocab_size": 0}, "vocab_size is 0: must be a whole number, at least 1"),
        ({"model_type": "mamba"}, "model_type 'mamba' is not one of llama, mistral, qwen2, qwen3"),
        ({"num_local_experts": 8}, "num_local_experts: kernels of such models are not timed yet"),
        ({"sliding_window": 4096}, "sliding_window is 4096"),
        ({"num_key_value_heads": 3}, "3 KV heads do not divide 8 heads"),
        ({"rope_theta": -1}, "rope_theta is -1: must be a number above 0"),
    ],
)
def test_a_bad_config_is_refused_with_file_and_key(tmp_path, changes, said):
    path = config(tmp_path, **changes)
    with pytest.raises(CalibrationError) as error:
        find_sizes(path)
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(CalibrationError, match=r"did you mean llama-3\.1-8b\?"):
        find_sizes("lama-3.1-8b")


def test_a_file_that_is_not_json_says_where(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("{\n  oops")
    with pytest.raises(CalibrationError, match=r"model\.json:2:3: not JSON"):
        find_sizes(path)
