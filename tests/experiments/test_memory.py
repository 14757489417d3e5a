"""A config becomes a KV cache: as given, from bytes, from GPU memory, or the table's own."""

from __future__ import annotations

import pytest

from costmodels import KVCapacity, LessonCostModel, load_cost_model
from costmodels.aiconfigurator import is_installed
from costmodels.table import CostTable, hand_written
from experiments.config import RunConfig
from experiments.memory import build_cost_model, build_memory
from simulator.errors import ConfigError

WITHOUT_KV = LessonCostModel().table
WITH_KV = hand_written("lesson", "a test", {}, kv=KVCapacity(100, 16, "hand"), max_model_len=500)


def blocks(table: CostTable = WITHOUT_KV, **fields: object) -> tuple[int, int]:
    cache = build_memory(RunConfig(**fields), table).cache
    return cache.blocks, cache.block_size


def test_the_table_carries_the_capacity_it_was_measured_with() -> None:
    assert blocks(WITH_KV) == (100, 16)
    assert build_memory(RunConfig(), WITH_KV).max_model_len == 500
    assert build_memory(RunConfig(max_model_len=400), WITH_KV).max_model_len == 400


def test_another_block_size_keeps_the_tokens() -> None:
    assert blocks(WITH_KV, block_size=32) == (50, 32)


def test_blocks_that_are_given_win_over_the_table() -> None:
    assert blocks(WITH_KV, kv_blocks=7, watermark=0.01) == (7, 16)


def test_bytes_are_counted_with_the_model() -> None:
    """Llama 3.1 8B: 32 layers x 2 x 8 heads x 128 x 2 bytes = 131,072 bytes a token."""
    assert blocks(kv_bytes=131_072 * 160, model="llama-3.1-8b") == (10, 16)
    assert blocks(kv_cache_gib=1, model="llama-3.1-8b", kv_dtype="fp8") == (1024, 16)
    assert blocks(kv_cache_gib=1, model="llama-3.1-8b", tensor_parallel_size=8) == (4096, 16)


def test_gpu_memory_leaves_room_for_weights_and_activations() -> None:
    """24 GiB x 0.9 - 16.06 GB of weights - 2 GiB, in blocks of 2 MiB."""
    weights = 16_060_522_496
    left = int(24 * 2**30 * 0.9) - weights - 2 * 2**30
    fields = {"gpu_memory_gib": 24, "activation_reserve_gib": 2, "model": "llama-3.1-8b"}
    assert blocks(**fields) == (left // (131_072 * 16), 16)


def test_a_device_brings_its_memory() -> None:
    of_device = blocks(device="h100-sxm", model="llama-3.1-8b")
    assert of_device == blocks(gpu_memory_gib=80, model="llama-3.1-8b")


def test_roofline_prices_need_model_and_device_and_are_stamped() -> None:
    fields = {"cost_model": "roofline", "device": "h100-sxm", "model": "llama-3.1-8b"}
    model = build_cost_model(RunConfig(**fields))
    assert model.stamp is not None
    assert model.stamp.startswith("uncalibrated")
    assert build_memory(RunConfig(**fields), model.table).cache.blocks > 0
    with pytest.raises(ConfigError, match="needs a model"):
        build_cost_model(RunConfig(cost_model="roofline"))


def test_a_table_of_another_number_of_gpus_is_refused() -> None:
    table = load_cost_model("b300-qwen3-32b-tp2").table
    assert blocks(table, tensor_parallel_size=2) == blocks(table)
    with pytest.raises(ConfigError, match=r"--tensor-parallel-size 4: cost table b300.* prices 2"):
        blocks(table, tensor_parallel_size=4)


def test_settings_that_size_nothing_are_said() -> None:
    unused = build_memory(RunConfig(model="qwen3-32b", kv_dtype="fp8"), WITH_KV).notes
    assert [note.partition(":")[0] for note in unused] == [
        "model qwen3-32b is not used",
        "kv_dtype fp8 is not used",
    ]
    sized = RunConfig(model="qwen3-32b", kv_dtype="fp8", kv_cache_gib=20)
    (note,) = build_memory(sized, WITH_KV).notes
    assert note.startswith("kv_dtype fp8 sizes the KV cache; prices stay")


def test_a_share_of_a_memory_that_is_not_given_is_said() -> None:
    (note,) = build_memory(RunConfig(gpu_memory_utilization=0.5), WITH_KV).notes
    assert note.startswith("gpu_memory_utilization 0.5 is not used: it is a share of --gpu-memory")
    known = RunConfig(model="qwen3-32b", gpu_memory_gib=180, gpu_memory_utilization=0.5)
    assert build_memory(known, WITH_KV).notes == ()


def test_the_default_table_is_measured_and_has_a_capacity() -> None:
    table = load_cost_model().table
    assert table.is_measured
    assert blocks(table)[0] > 1000


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "Give --kv-blocks, or --kv-cache-gib with --model, or --gpu-memory-gib with --model"),
        ({"kv_blocks": 1, "kv_cache_gib": 1}, "--kv-blocks and --kv-cache-gib both set"),
        ({"gpu_memory_gib": 80, "device": "l40s"}, "--gpu-memory-gib and --device both set"),
        ({"kv_cache_gib": 1}, "only with a model: give --model"),
        ({"kv_bytes": 1000, "model": "llama-3.1-8b"}, "does not hold one block of 16 tokens"),
        ({"kv_cache_gib": 1, "model": "lama-3.1-8b"}, "did you mean llama-3.1-8b"),
        ({"gpu_memory_gib": 10, "model": "llama-3.1-8b"}, "no memory is left for the KV cache"),
    ],
)
def test_a_capacity_that_cannot_be_known_is_refused(
    fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        blocks(**fields)


def test_swapping_is_priced_by_the_link_and_the_size_of_a_block() -> None:
    """Llama-3.1-8B bf16: 131,072 bytes a token, 16 a block, over 32 GB/s: 65,536 ns."""
    config = RunConfig(model="llama-3.1-8b", swap_bandwidth_gb_s=32.0, kv_blocks=100)
    memory = build_memory(config, build_cost_model(config).table)
    assert memory.swap_ns_per_block == 65_536


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"swap_bandwidth_gb_s": 32.0}, "give --model"),
        ({"swap_bandwidth_gb_s": 32.0, "swap_ms_per_block": 1.0}, "give one"),
        ({"swap_ms_per_block": 1.0, "enable_prefix_caching": True}, "--no-enable-prefix-caching"),
    ],
)
def test_swapping_that_cannot_be_priced_is_refused(
    settings: dict[str, object], message: str
) -> None:
    config = RunConfig(kv_blocks=100, **settings)
    with pytest.raises(ConfigError, match=message):
        build_memory(config, build_cost_model(config).table)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"model": "llama-3.1-8b"}, "model 'llama-3.1-8b': .* was measured with 'Qwen/Qwen3-32B'"),
        ({"device": "h100-sxm", "model": "qwen3-32b"}, "device 'h100-sxm': .*'NVIDIA B300 SXM6'"),
    ],
)
def test_a_measured_table_asked_for_by_name_is_of_its_own_model_and_device(asked, said):
    config = RunConfig(cost_model="b300-qwen3-32b-tp1", **asked)
    with pytest.raises(ConfigError, match=said):
        build_memory(config, build_cost_model(config).table)


@pytest.mark.skipif(not is_installed(), reason="aiconfigurator-core is not installed")
def test_kernels_of_a_package_take_model_gpus_and_dtypes_from_the_config() -> None:
    config = RunConfig(
        cost_model="aiconfigurator:h100_sxm",
        model="qwen3-14b",
        tensor_parallel_size=2,
        dtype="fp8",
        kv_dtype="fp8",
    )
    table = build_cost_model(config).table
    assert table.name == "aiconfigurator-h100_sxm-qwen3-14b-tp2"
    assert table.provenance["dtype"] == "fp8"
    memory = build_memory(config, table)
    assert "an estimate" in memory.origin
    assert memory.notes == ()


def test_published_kernels_need_a_model() -> None:
    with pytest.raises(ConfigError, match=r"llmservingsim:\. needs a model"):
        build_cost_model(RunConfig(cost_model="llmservingsim:."))
