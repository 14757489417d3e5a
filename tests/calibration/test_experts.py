"""Mixture of experts: what is timed is what the model's definition says, and configs parse."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812  # after the skip; as all torch code names it

from calibration import experts  # noqa: E402
from calibration.batch import Chunk  # noqa: E402
from calibration.errors import CalibrationError  # noqa: E402
from calibration.kernels import Decoder  # noqa: E402
from calibration.sizes import DecoderSizes, find_sizes  # noqa: E402

SPARSE = DecoderSizes(
    name="sparse",
    family="qwen2_moe",
    hidden=32,
    intermediate=16,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocabulary=50,
    experts=6,
    experts_per_token=2,
    shared_intermediate=24,
)


def plain_experts(weights, rows, per_token):
    """Token by token, expert by expert."""
    answers = []
    for row in rows:
        chances = (weights.router @ row).softmax(-1)
        best = chances.topk(per_token)
        total = torch.zeros_like(row)
        for chance, expert in zip(best.values, best.indices.tolist(), strict=True):
            gate, up = (weights.gate_up[expert] @ row).chunk(2)
            total += chance / best.values.sum() * (weights.down[expert] @ (F.silu(gate) * up))
        answers.append(total)
    return torch.stack(answers)


@pytest.mark.parametrize("is_grouped", [True, False])
def test_tokens_pass_their_best_experts_grouped_or_one_by_one(is_grouped, monkeypatch):
    with torch.inference_mode():
        weights, rows = Decoder(SPARSE).layers[0].experts, torch.randn(9, 32)
        wanted = plain_experts(weights, rows, 2)
        if not is_grouped:
            monkeypatch.setattr(experts, "has_grouped_gemm", lambda device, dtype: False)
        routed = experts.route(weights, rows, 2)
        torch.testing.assert_close(experts.through_experts(weights, rows, routed), wanted)
    assert 2 <= routed.used <= 6


def test_the_shared_expert_is_behind_its_gate():
    with torch.inference_mode():
        weights, rows = Decoder(SPARSE).layers[0].experts, torch.randn(3, 32)
        gate, up = (rows @ weights.shared_gate_up.T).chunk(2, dim=-1)
        wanted = (rows @ weights.shared_gate.T).sigmoid() * (
            (F.silu(gate) * up) @ weights.shared_down.T
        )
        torch.testing.assert_close(experts.through_shared(weights, rows), wanted)


def test_a_step_laps_router_and_experts_and_knows_where_tokens_went():
    with torch.inference_mode():
        decoder = Decoder(SPARSE, cache_tokens=64)
        caches, laps = [decoder.cache(layer, 3, 8) for layer in range(2)], []
        decoder.step(decoder.batch([Chunk(2, 0, 5)], [3, 6]), caches, laps.append)
    layer = ["norms", "qkv", "rope", "attention", "o", "norms", "router", "experts"]
    layer.append("shared_expert")
    assert laps == ["embedding", *layer * 2, "final_norm", "lm_head", "sampler"]
    assert [routed.experts.shape for routed in decoder.routed] == [(7, 2)] * 2


LLAMA = {
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 128},
}
CONFIGS = {
    "llama": {"rope_scaling": {"rope_type": "llama3"}, "attention_bias": False},
    "mistral": {"sliding_window": None, "head_dim": 32},
    "qwen2": {"use_sliding_window": False, "sliding_window": 4096},
    "qwen3": {"head_dim": 32, "attention_bias": False},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen2_moe": {
        **{"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 16},
        **{"shared_expert_intermediate_size": 48, "decoder_sparse_step": 1},
    },
    "qwen3_moe": {
        **{"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 16},
        **{"head_dim": 32, "mlp_only_layers": [], "decoder_sparse_step": 1},
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"},
    },
}


def sizes_of(tmp_path, family, **changes):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": family, **LLAMA, **CONFIGS[family], **changes}))
    return find_sizes(path)


@pytest.mark.parametrize("family", CONFIGS)
def test_every_family_is_read_and_runs(family, tmp_path):
    sizes = sizes_of(tmp_path, family)
    assert sizes.head_dim == CONFIGS[family].get("head_dim", 16)
    assert sizes.has_qk_norm == family.startswith("qwen3")
    assert sizes.attention_bias == family.startswith("qwen2")
    assert sizes.experts == {"mixtral": 8, "qwen2_moe": 60, "qwen3_moe": 128}.get(family, 0)
    with torch.inference_mode():
        decoder = Decoder(sizes, cache_tokens=16)
        caches = [decoder.cache(layer, 1, 8) for layer in range(2)]
        assert decoder.step(decoder.batch([Chunk(0, 0, 4)], []), caches).shape == (1,)


def test_mixtral_weights_by_hand(tmp_path):
    """A layer: 64 x (64 + 32 + 32 + 64) attention, 8 experts of 3 x 64 x 128 and a router of 64
    each; 2 x 100 x 64 embeddings."""
    layer = 64 * 192 + 8 * (3 * 64 * 128 + 64)
    assert sizes_of(tmp_path, "mixtral").weights == 2 * layer + 12_800


def test_rope_theta_is_found_in_newer_files(tmp_path):
    assert sizes_of(tmp_path, "qwen3_moe").rope_theta == 1e6


@pytest.mark.parametrize(
    ("family", "changes", "said"),
    [
        ("qwen3_moe", {"mlp_only_layers": [0]}, "mlp_only_layers, decoder_sparse_step"),
        ("qwen3_moe", {"decoder_sparse_step": 2}, "mlp_only_layers, decoder_sparse_step"),
        ("mixtral", {"num_experts_per_tok": 9}, "num_experts_per_tok is 9: there are 8 experts"),
        ("mixtral", {"num_local_experts": None}, "num_local_experts is None: must be a whole"),
        ("llama", {"num_experts": 4}, "num_experts: kernels of such models are not timed yet"),
    ],
)
def test_a_mixture_that_is_not_timed_is_refused(family, changes, said, tmp_path):
    with pytest.raises(CalibrationError, match=said):
        sizes_of(tmp_path, family, **changes)


def test_tensor_parallelism_divides_heads_mlp_and_vocabulary():
    half = SPARSE.divided(2)
    assert (half.heads, half.kv_heads, half.intermediate) == (2, 1, 8)
    assert (half.shared_intermediate, half.vocabulary) == (12, 25)
    assert (half.hidden, half.experts, half.layers) == (32, 6, 2)
    quarter = SPARSE.divided(4)
    assert (quarter.heads, quarter.kv_heads) == (1, 1), "KV heads are copied, not cut"
    with pytest.raises(CalibrationError, match="size 3 does not divide the 4 heads of sparse"):
        SPARSE.divided(3)
