"""Kernels of the package `aiconfigurator-core`: a tiny one made here, and the real one if there."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from costmodels import aiconfigurator, find_model, list_cost_models, load_cost_model
from costmodels.aiconfigurator import is_installed
from costmodels.importers.kernel_attention import attention_points, without_spikes
from costmodels.importers.kernels import _times_by_m
from simulator.errors import ConfigError
from simulator.plan import StepShape

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": 64,
}
SIZES = (32, 64, 128, 192)


def rows(**columns):
    return pa.table({name: list(values) for name, values in columns.items()})


def gemms(dtype, us):
    keys = [(m, n, k) for m in (1, 8, 64) for n in SIZES for k in SIZES]
    m, n, k = zip(*keys, strict=True)
    latency = [us * (1 + a / 64) / 1000 for a in m]
    return rows(m=m, n=n, k=k, latency=latency, gemm_dtype=[dtype] * len(keys))


def attention(isl, batch, step, us):
    count = len(us)
    return rows(
        **{"isl": isl, "batch_size": batch, "step": step, "latency": [t / 1000 for t in us]},
        **{"num_heads": [4] * count, "num_key_value_heads": [4] * count, "head_dim": [16] * count},
        **{"kv_cache_dtype": ["bfloat16"] * count, "attn_dtype": ["bfloat16"] * count},
        window_size=[0] * count,
    )


@pytest.fixture
def package(tmp_path, monkeypatch):
    """One GPU, `tiny_gpu`, whose GEMMs take 64 us and 1 us a token, in fp8 half of that."""
    systems = tmp_path / "aiconfigurator_core/systems"

    def put(what, file, table, version="0.9.0", backend="vllm"):
        folder = systems / f"data/tiny_gpu/{what}/{backend}/{version}"
        folder.mkdir(parents=True, exist_ok=True)
        parquet.write_table(table, folder / f"{file}.parquet")

    put("gemm", "gemm_perf", gemms("bfloat16", 999.0))
    put(
        "gemm",
        "gemm_perf",
        pa.concat_tables([gemms("bfloat16", 64.0), gemms("fp8", 32.0)]),
        "0.10.0",
    )
    put("attention", "context_attention_perf", attention([16, 32], [1, 1], [0, 0], [10.0, 30.0]))
    put(
        *("attention", "generation_attention_perf"),
        attention([1] * 4, [1, 1, 8, 8], [15, 31, 15, 31], [5.0, 6.0, 7.0, 8.0]),
    )
    scale = rows(
        m=[1, 8, 64] * 2, k=[64] * 3 + [128] * 3, latency=[0.002] * 6, quant_dtype=["fp8"] * 6
    )
    put("quantize", "computescale_perf", scale)
    put("quantize", "scale_matrix_perf", scale)
    reduced = rows(message_size=[64, 6400], latency=[0.003, 0.012])
    reduced = reduced.append_column("num_gpus", pa.array([2, 2]))
    put(
        "comm",
        "custom_allreduce_perf",
        reduced.append_column("backend", pa.array(["vllm_graph"] * 2)),
    )
    memory = "gpu: {mem_bw: 1000000000000, mem_capacity: 8589934592}\n"
    (systems / "tiny_gpu.yaml").write_text(memory)
    spec = SimpleNamespace(submodule_search_locations=[str(systems.parent)])
    monkeypatch.setattr(aiconfigurator, "find_spec", lambda name: spec)
    monkeypatch.setattr(aiconfigurator, "version", lambda name: "1.2.3")
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    return tmp_path / "tiny.json"


def test_a_step_is_the_sum_of_the_newest_measured_kernels(package):
    """One decode at 15: a layer is four GEMMs of 65 us, attention 5 and 5 x 2.2 us of elementwise
    work with its traffic; the output projection is one more GEMM.
    """
    model = load_cost_model("aiconfigurator:tiny_gpu", model=package)
    terms = dict(model.explain(StepShape((), 1, 15)))
    assert terms["qkv"] == terms["down"] == pytest.approx(2 * 0.065)
    assert terms["attention of decodes"] == pytest.approx(2 * 0.005)
    assert terms["lm_head"] == pytest.approx(0.065)
    traffic_us = 2 * (8 * 64 + 2 * 128 + 4 * 64 + 3 * 64) / (0.8 * 1e6)
    assert terms["elementwise (estimated)"] == pytest.approx(2 * (11 + traffic_us) / 1000, rel=1e-4)


def test_decodes_are_padded_to_the_sizes_that_vllm_captures(package):
    """5 decodes run as 8: a GEMM takes 72 us."""
    model = load_cost_model("aiconfigurator:tiny_gpu", model=package)
    assert dict(model.explain(StepShape((), 5, 75)))["qkv"] == pytest.approx(2 * 0.072)


def test_the_table_says_where_it_comes_from_and_what_fits(package):
    """0.9 x 8 GiB - 4 GiB - weights of 66 kB, at 16 x 512 bytes a block."""
    table = load_cost_model("aiconfigurator:tiny_gpu", model=package).table
    assert table.provenance["software"] == {"aiconfigurator-core": "1.2.3", "vllm": "0.10.0"}
    assert table.provenance["licence"] == "Apache-2.0"
    assert table.kv.origin.startswith("an estimate")
    assert table.kv.blocks == (int(0.9 * 2**33) - 2**32 - find_model(package).weight_bytes()) // (
        512 * 16
    )
    assert table.stamp is None


def test_heads_that_were_not_measured_are_named(package):
    with pytest.raises(ConfigError, match=r"2 query and 2 KV heads was not .* pairs: 4/4\)"):
        load_cost_model("aiconfigurator:tiny_gpu", model=package, tp=2)


def test_two_gpus_add_their_all_reduce(package):
    """One token is 64 elements: 3 us, twice a layer; 8 heads on 2 GPUs are 4 on each."""
    wide = {**TINY, "num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 64}
    package.write_text(json.dumps(wide))
    model = load_cost_model("aiconfigurator:tiny_gpu", model=package, tp=2)
    assert dict(model.explain(StepShape((), 1, 15)))["all_reduce"] == pytest.approx(2 * 2 * 0.003)


def test_fp8_with_static_scales_does_without_finding_them(package):
    """A GEMM of one token takes 32.5 us in fp8, 2 of them to find the scales."""
    shape = StepShape((), 1, 15)
    dynamic, static = (
        dict(load_cost_model("aiconfigurator:tiny_gpu", model=package, dtype=dtype).explain(shape))
        for dtype in ("fp8", "fp8_static")
    )
    assert dynamic["qkv"] == pytest.approx(2 * 0.0325)
    assert static["qkv"] == pytest.approx(2 * 0.0305)
    assert static["lm_head"] == pytest.approx(0.065)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("tiny_gp", {}, "no kernels of 'tiny_gp', did you mean tiny_gpu"),
        ("tiny_gpu/sglan", {}, "back end 'sglan' is unknown, did you mean sglang"),
        ("tiny_gpu/sglang", {}, "holds no gemm_perf of sglang on tiny_gpu"),
        ("tiny_gpu", {"dtype": "fp9"}, "dtype 'fp9' is not among the measured ones"),
        ("tiny_gpu", {"kv_dtype": "fp8"}, "has no rows with head_dim 16, kv_cache_dtype fp8"),
        ("tiny_gpu", {"device": "h100-sxm"}, "device 'h100-sxm' has no effect"),
    ],
)
def test_what_is_not_there_is_named(package, name, options, problem):
    with pytest.raises(ConfigError, match=problem):
        load_cost_model(f"aiconfigurator:{name}", model=package, **options)


def test_experts_are_not_priced(package):
    with pytest.raises(ConfigError, match="qwen3-30b-a3b has experts"):
        load_cost_model("aiconfigurator:tiny_gpu", model="qwen3-30b-a3b")


def test_a_model_is_needed(package):
    with pytest.raises(ConfigError, match="aiconfigurator:tiny_gpu needs a model"):
        load_cost_model("aiconfigurator:tiny_gpu")


def test_without_the_package_one_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(aiconfigurator, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"not installed: pip install 'llm-runway\[aic\]'"):
        load_cost_model("aiconfigurator:h100_sxm", model="qwen3-14b")
    assert "not installed" in dict(list_cost_models())["aiconfigurator:SYSTEM"]


def test_spikes_become_the_mean_of_their_neighbours_and_ends_stay():
    assert without_spikes({1: 90.0, 2: 10.0, 4: 31.0, 8: 20.0}) == {
        1: 90.0,
        2: 10.0,
        4: 15.0,
        8: 20.0,
    }


def heads(number, us):
    count = len(us)
    return {
        "num_heads": pa.array([number] * count).to_numpy(),
        "num_key_value_heads": pa.array([2] * count).to_numpy(),
        "latency": pa.array([t / 1000 for t in us]).to_numpy(),
    }


def test_a_decode_is_not_faster_than_the_memory():
    """2 sequences of 1,000 tokens at 0.01 us a token: at least 20 us, where 12 were measured."""
    prefill = {"isl": pa.array([16, 32]).to_numpy(), **heads(4, [1.0, 2.0])}
    decode = {
        "batch_size": pa.array([2, 2]).to_numpy(),
        "step": pa.array([100, 1000]).to_numpy(),
        **heads(4, [11.0, 12.0]),
    }
    points = attention_points(prefill, decode, heads=(4, 2), us_per_token=0.01)
    assert [point for point in points if point[2]] == [(0, 0, 2, 100, 11.0), (0, 0, 2, 1000, 20.0)]


def test_a_gemm_of_twice_its_neighbours_time_is_a_hiccup():
    """90 us at 8 rows, where 1 row takes 20 and 64 take 30: their mean."""
    columns = {
        **{"m": np.array([1, 8, 64]), "n": np.full(3, 32), "k": np.full(3, 64)},
        "latency": np.array([0.02, 0.09, 0.03]),
    }
    times = _times_by_m(columns, np.ones(3, dtype=bool))
    assert times == pytest.approx({1: 20.0, 8: 25.0, 64: 30.0})


def test_the_fastest_gemm_of_the_newest_version(package):
    """64 x 192 x 192 in 128 us, in fp8 in half of that."""
    for dtype, us in (("bfloat16", 128), ("fp8", 64)):
        found = aiconfigurator.fastest_gemm_flops("tiny_gpu/vllm", dtype)
        assert found == pytest.approx(2 * 64 * 192 * 192 / (us * 1e-6))


needs_package = pytest.mark.skipif(
    not is_installed(), reason="aiconfigurator-core is not installed"
)


@needs_package
def test_h100_steps_are_those_of_a_real_engine():
    """Qwen3-14B on one H100, vLLM 0.23 at 2 requests a second: medians of 45,000 decode steps and
    of 1,126 with one prompt of about 990 tokens.
    """
    model = load_cost_model("aiconfigurator:h100_sxm", model="qwen3-14b")
    for seqs, real_ms in ((2, 11.26), (4, 11.53), (6, 11.79), (8, 11.83)):
        price_ms = model.step_ns(StepShape((), seqs, 1050 * seqs)) / 1e6
        assert price_ms == pytest.approx(real_ms, rel=0.03)
    mixed_ms = model.step_ns(StepShape(((988, 0),), 3, 3150)) / 1e6
    assert mixed_ms == pytest.approx(40.55, rel=0.05)


@needs_package
@pytest.mark.parametrize(
    ("name", "model", "tp"),
    [
        ("a100_sxm", "llama-3.1-8b", 2),
        ("b200_sxm/trtllm", "llama-3.1-70b", 8),
        ("l40s", "qwen3-8b", 1),
    ],
)
def test_prices_of_other_gpus_are_positive_and_grow(name, model, tp):
    prices = load_cost_model(f"aiconfigurator:{name}", model=model, tp=tp)
    small, large = (prices.step_ns(StepShape((), n, 1000 * n)) for n in (4, 64))
    assert 0 < small < large
    assert prices.table.held_out["median"] < 0.1
