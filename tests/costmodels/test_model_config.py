"""Sizes from config.json, bytes from sizes, KV blocks from bytes."""

import json

import pytest

from costmodels import ModelConfig, find_model, kv_blocks_from_memory
from simulator.errors import ConfigError

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


def config(tmp_path, **changes):
    raw = {key: value for key, value in {**TINY, **changes}.items() if value != "absent"}
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(raw))
    return ModelConfig.from_json(path)


def test_weights_by_hand(tmp_path):
    """A layer: 64 x (64 + 64 + 32 + 32) attention + 3 x 64 x 128 MLP = 36,864; two norms of 64.
    In all 2 x (36,864 + 128) + 2 x 100 x 64 embeddings + 64 = 86,848."""
    model = config(tmp_path)
    assert model.head_dim == 16
    assert model.layer_weights == 36_864
    assert model.parameters == 86_848
    assert model.weight_bytes("bfloat16") == 2 * 86_848


def test_tied_embeddings_are_counted_once(tmp_path):
    assert config(tmp_path, tie_word_embeddings=True).parameters == 86_848 - 6_400


def test_only_the_layers_matrices_are_quantised(tmp_path):
    """fp8: 73,728 x 1 + 13,120 x 2; int4: 73,728 x (1/2 + 2/128) + 13,120 x 2."""
    model = config(tmp_path)
    assert model.weight_bytes("fp8") == 73_728 + 26_240
    assert model.weight_bytes("int4") == 36_864 + 1_152 + 26_240


def test_kv_bytes_by_hand(tmp_path):
    """2 (K and V) x 2 layers x 2 heads x 16 dims = 128 elements; int4: 8 heads x (8 + 4) bytes."""
    model = config(tmp_path)
    dtypes = ("bf16", "fp16", "fp8", "int8", "int4")
    assert [model.kv_bytes_per_token(dtype) for dtype in dtypes] == [256, 256, 128, 128, 96]


def test_tensor_parallel_splits_kv_heads_or_copies_them(tmp_path):
    model = config(tmp_path)
    assert [model.kv_bytes_per_token("bf16", tp) for tp in (1, 2, 4)] == [256, 128, 128]
    with pytest.raises(ConfigError, match="tensor parallel 3 does not divide 2 KV heads"):
        model.kv_bytes_per_token("bf16", 3)


def test_tensor_parallel_splits_all_weights_but_the_norms(tmp_path):
    """(73,728 + 12,800) x 2 / 2 + 320 x 2."""
    assert config(tmp_path).weight_bytes("bf16", 2) == 86_528 + 640


@pytest.mark.parametrize(
    ("name", "parameters", "kv_bytes"),
    [
        ("llama-3.1-8b", 8_030_261_248, 131_072),
        ("qwen3-14b", 14_768_307_200, 163_840),
        ("qwen3-32b", 32_762_123_264, 262_144),
    ],
)
def test_bundled_models_have_their_published_size(name, parameters, kv_bytes):
    model = find_model(name)
    assert (model.parameters, model.kv_bytes_per_token()) == (parameters, kv_bytes)


def test_attention_of_a_token_pair_against_a_token_of_qwen3_32b():
    """4 x 64 heads x 128 x 64 layers against 2 x 64 x 487,587,840: one to 29,760."""
    assert 1 / find_model("qwen3-32b").attention_tokens_per_pair == pytest.approx(29_760)


def test_a_model_may_be_a_folder_with_a_config_json(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    assert find_model(tmp_path).name == tmp_path.name
    assert find_model(tmp_path / "config.json").layers == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "absent"}, r"tiny.json: hidden_size missing"),
        ({"model_type": "absent"}, r"tiny.json: model_type missing"),
        ({"model_type": "mamba"}, r"model_type 'mamba' is not one of llama, mistral, qwen2"),
        ({"num_experts": 8}, r"tiny.json: num_experts is not understood"),
        ({"hiden_act": "silu"}, r"hiden_act is not understood, did you mean hidden_act\?"),
        ({"vocab_size": 0}, r"vocab_size is 0: must be a whole number"),
        ({"vocab_size": "many"}, r"vocab_size is 'many'"),
        ({"sliding_window": 4096}, r"sliding_window is 4096.*not modelled"),
        ({"num_key_value_heads": 3}, r"3 KV heads do not divide 4"),
        ({"num_attention_heads": 5}, r"head_dim missing, and 5 heads do not divide 64"),
        ({"quantization_config": {}}, r"quantization_config is not understood"),
    ],
)
def test_a_config_that_cannot_be_sized_is_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **changes)


def test_keys_that_change_no_size_are_ignored(tmp_path):
    model = config(tmp_path, rope_theta=5e5, eos_token_id=[1], transformers_version="4", _x=1)
    assert model.parameters == 86_848
    assert config(tmp_path, sliding_window=4096, use_sliding_window=False).layers == 2


def test_qwen2_has_biases_on_q_k_and_v(tmp_path):
    """(4 + 2 x 2) heads x 16 dims x 2 layers."""
    assert config(tmp_path, model_type="qwen2").parameters == 86_848 + 256


def test_broken_json_is_refused_with_its_position(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama",\n oops}')
    with pytest.raises(ConfigError, match=r"config.json:2:2: not JSON"):
        ModelConfig.from_json(path)
    with pytest.raises(ConfigError, match=r"neither a config.json nor bundled, did you mean qwen3"):
        find_model("qwen3-32")
    with pytest.raises(ConfigError, match="no such file"):
        find_model(tmp_path / "absent.json")


MEMORY = {
    "gpu_memory_bytes": 80_000_000_000,
    "gpu_memory_utilization": 0.9,
    "weight_bytes": 16_000_000_000,
    "activation_reserve_bytes": 4_000_000_000,
    "kv_bytes_per_token": 131_072,
    "block_size": 16,
}


def test_kv_blocks_by_hand():
    """72 - 16 - 4 = 52 GB; 52e9 / (16 x 131,072) = 24,795.5."""
    assert kv_blocks_from_memory(**MEMORY) == 24_795


def test_quantised_kv_is_just_more_blocks():
    """fp8 halves a token's bytes: 49,591; int4 takes 68/256 of them: 93,347."""
    model = find_model("llama-3.1-8b")
    sizes = [model.kv_bytes_per_token(dtype) for dtype in ("bf16", "fp8", "int4")]
    blocks = [kv_blocks_from_memory(**{**MEMORY, "kv_bytes_per_token": size}) for size in sizes]
    assert blocks == [24_795, 49_591, 93_347]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_bytes": 70_000_000_000}, r"no memory is left.*80.0 GB x 0.9 = 72.0 GB, weights"),
        ({"gpu_memory_utilization": 1.1}, "gpu_memory_utilization is 1.1"),
        ({"gpu_memory_utilization": 0.0}, "must be above 0 and at most 1"),
        ({"block_size": 0}, "must be at least 1"),
    ],
)
def test_memory_that_holds_no_kv_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        kv_blocks_from_memory(**{**MEMORY, **changes})


MIXTRAL = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN_MOE = {
    **{"model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8},
    **{"moe_intermediate_size": 32, "norm_topk_prob": True, "mlp_only_layers": []},
    **{"decoder_sparse_step": 1, "router_aux_loss_coef": 0.001, "intermediate_size": "absent"},
}


def test_weights_of_a_mixture_by_hand(tmp_path):
    """A layer: 12,288 attention, a router of 8 x 64, 8 experts of 3 x 64 x 128; 2 a token."""
    model = config(tmp_path, **MIXTRAL)
    assert model.expert_weights == 24_576
    assert model.layer_weights == 12_288 + 512 + 8 * 24_576
    assert model.active_layer_weights == 12_288 + 512 + 2 * 24_576
    assert model.kv_bytes_per_token("bf16") == 256


def test_qwen_experts_have_their_own_width_and_qk_norms(tmp_path):
    """Two norms of 16 more a layer than the dense model's two of 64."""
    model = config(tmp_path, **QWEN_MOE)
    assert (model.experts, model.experts_per_token, model.intermediate_size) == (128, 8, 32)
    assert model.small_weights == 2 * (2 * 64 + 2 * 16) + 64
    shared = config(tmp_path, **QWEN_MOE, shared_expert_intermediate_size=48)
    # Its three matrices, and the gate of one column.
    assert shared.dense_layer_weights - model.dense_layer_weights == 3 * 64 * 48 + 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({**MIXTRAL, "num_experts_per_tok": 9}, "num_experts_per_tok is 9: there are 8 experts"),
        ({**MIXTRAL, "num_local_experts": "absent"}, "num_local_experts is None: must be"),
        ({**QWEN_MOE, "mlp_only_layers": [0]}, "mlp_only_layers, decoder_sparse_step: layers"),
        ({"num_local_experts": 8}, "num_local_experts is not understood"),
    ],
)
def test_a_mixture_that_cannot_be_sized_is_refused(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **changes)
