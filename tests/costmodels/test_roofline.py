"""Prices from datasheets: near what bandwidth and FLOP/s allow, and never calibrated."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels import GPUS, RooflineCostModel, find_model, load_cost_model
from simulator.errors import ConfigError
from simulator.plan import StepShape

H100, LLAMA = GPUS["h100-sxm"], find_model("llama-3.1-8b")
ROOFLINE = RooflineCostModel(H100, LLAMA)
READ_BYTES = 2 * (8_030_261_248 - 128_256 * 4096 - 65 * 4096)
"""bf16 weights less the embedding table (looked up, not read) and the 65 norms."""


def test_decoding_one_sequence_takes_the_weights_read_at_the_bandwidth():
    """15.0 GB / (0.8 x 3.35 TB/s) = 5.6 ms, and 101 tokens of KV at 131,072 bytes: 4.9 us."""
    expected_ns = (READ_BYTES + 101 * 131_072) / (0.8 * 3.35e12) * 1e9
    assert ROOFLINE.step_ns(StepShape((), 1, 100)) == pytest.approx(expected_ns, rel=1e-6)
    assert expected_ns == pytest.approx(5.6e6, rel=0.01)


def test_a_long_prompt_takes_its_flops_at_the_peak():
    """2 x 6.98e9 matrix weights x 8192 tokens, 2 x 525e6 for one output row, and
    524,288 FLOPs x 8192^2 / 2 pairs, at 0.7 x 989.5 TFLOP/s: 190.5 ms."""
    matrices = 2 * LLAMA.layers * LLAMA.layer_weights * 8192 + 2 * 128_256 * 4096
    attention = 4 * 32 * 128 * 32 * 8192 * 8192 / 2
    expected_ns = (matrices + attention) / (0.7 * 989.5e12) * 1e9
    assert ROOFLINE.step_ns(StepShape(((8192, 0),), 0, 0)) == pytest.approx(expected_ns, rel=1e-6)
    assert expected_ns == pytest.approx(190.5e6, rel=0.01)


def test_decode_kv_is_read_at_the_bandwidth():
    """10,000 more context tokens: 1.31 GB / (0.8 x 3.35 TB/s) = 0.489 ms."""
    less, more = (ROOFLINE.step_ns(StepShape((), 8, tokens)) for tokens in (1000, 11_000))
    assert more - less == pytest.approx(489_075, abs=2)


def test_int4_kv_is_read_faster():
    """68 instead of 256 bytes per head."""
    quantised = RooflineCostModel(H100, LLAMA, kv_dtype="int4")
    less, more = (quantised.step_ns(StepShape((), 8, tokens)) for tokens in (1000, 11_000))
    assert more - less == pytest.approx(489_075 * 68 / 256, abs=2)


def test_two_gpus_halve_the_weights_and_add_an_all_reduce():
    """All-reduce of one token: 2 x 32 layers x 4096 x 2 bytes x 2 (2-1)/2 / 450 GB/s = 1.2 us."""
    shape = StepShape((), 1, 0)
    two = RooflineCostModel(H100, LLAMA, tensor_parallel=2).step_ns(shape)
    assert two - ROOFLINE.step_ns(shape) / 2 == pytest.approx(1165, abs=2)


def test_the_efficiencies_are_arguments():
    perfect = RooflineCostModel(H100, LLAMA, flops_efficiency=1.0, bandwidth_efficiency=1.0)
    shape = StepShape((), 1, 0)
    assert perfect.step_ns(shape) == pytest.approx(0.8 * ROOFLINE.step_ns(shape), rel=1e-6)


def test_step_overhead_is_added_once():
    slow = RooflineCostModel(H100, LLAMA, step_overhead_ms=2.5)
    shape = StepShape(((10, 0),), 3, 300)
    assert slow.step_ns(shape) - ROOFLINE.step_ns(shape) == 2_500_000


def test_every_result_is_stamped_uncalibrated():
    assert ROOFLINE.stamp is not None
    assert ROOFLINE.stamp.startswith("uncalibrated: roofline of llama-3.1-8b on 1 x NVIDIA H100")
    assert "datasheet" in str(ROOFLINE.table.provenance["origin"])
    assert ROOFLINE.table.parameters["bandwidth_efficiency"] == 0.8


def test_it_carries_the_kv_capacity_of_its_memory():
    """0.9 x 80 GiB - 16.06 GB weights - 4 GiB = 56.9 GB: 27,157 blocks of 2 MiB."""
    assert ROOFLINE.table.kv is not None
    assert ROOFLINE.table.kv.blocks == 27_157
    assert ROOFLINE.table.kv.origin.startswith("derived")


@given(st.integers(1, 8192), st.integers(0, 100_000), st.integers(0, 256), st.integers(0, 10**6))
def test_prices_are_positive_and_never_fall_when_a_step_gets_more_work(new, past, seqs, context):
    shape = StepShape(((new, past),), seqs, context)
    price = ROOFLINE.step_ns(shape)
    assert price >= 1
    assert ROOFLINE.step_ns(shape._replace(chunks=((new + 1, past),))) >= price
    assert ROOFLINE.step_ns(shape._replace(chunks=((new, past + 1),))) >= price
    assert ROOFLINE.step_ns(shape._replace(decode_seqs=seqs + 1)) >= price
    assert ROOFLINE.step_ns(shape._replace(decode_context_tokens=context + 1)) >= price


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flops_efficiency": 0.0}, "flops_efficiency is 0.0: must be above 0"),
        ({"bandwidth_efficiency": 1.5}, "bandwidth_efficiency is 1.5"),
        ({"tensor_parallel": 3}, "tensor parallel 3 does not divide 8 KV heads"),
        ({"dtype": "fp9"}, "dtype 'fp9' is unknown, did you mean fp8"),
        ({"step_overhead_ms": -1.0}, "step_overhead_ms is -1.0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ConfigError, match=message):
        RooflineCostModel(H100, LLAMA, **options)


def test_a_model_that_does_not_fit_says_what_to_do():
    with pytest.raises(ConfigError, match=r"no memory is left .* weights 65.5 GB.*use more GPUs"):
        load_cost_model("roofline", model="qwen3-32b", device="rtx-4090")


def test_experts_are_read_as_far_as_tokens_are_sent_to_them(tmp_path):
    """One token reads 2 of 8 experts, 4 and more tokens all 8; in between it is linear."""
    sizes = {
        **{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336},
        **{"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
        **{"vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2},
    }
    path = tmp_path / "mixtral.json"
    path.write_text(json.dumps(sizes))
    model = find_model(path)
    roofline = RooflineCostModel(GPUS["b300-sxm"], model, dtype="fp8")
    prices = [roofline.step_ns(StepShape((), seqs, 0)) for seqs in (1, 2, 3, 4, 5)]
    expert_ns = 32 * model.expert_weights / (8e12 * 0.8) * 1e9
    for (one, next_one), experts in zip(pairwise(prices), (2, 2, 2, 0), strict=True):
        assert next_one - one == pytest.approx(experts * expert_ns, rel=0.01, abs=2_000)
