"""From a config to prices and a KV cache: cost table, model, GPU memory, block size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from costmodels import (
    DEFAULT_COST_MODEL,
    CostTable,
    LoadedCostModel,
    ModelConfig,
    find_model,
    kv_blocks_from_memory,
    load_cost_model,
)
from costmodels.hardware import find_gpu
from costmodels.loading import BUNDLED_TABLES, bundled_tables, is_packaged, is_published
from costmodels.matching import refuse_another
from costmodels.model_memory import DEFAULT_ACTIVATION_RESERVE_BYTES
from simulator.errors import ConfigError
from simulator.kv_cache import KVCache
from simulator.prefix_cache import PrefixCache
from simulator.units import ms_to_ns

from .config import RunConfig, flag_of
from .provenance import file_identity

GIB = 1024**3
DEFAULT_BLOCK_SIZE = 16
CAPACITIES = ("kv_blocks", "kv_bytes", "kv_cache_gib", "gpu_memory_gib")
"""Ways to say how much KV cache there is; at most one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The KV cache and how its size is known. max_model_len: in tokens; None: no limit.

    swap_ns_per_block: what preemption by swapping costs; None: preempt by recompute.
    """

    cache: KVCache
    origin: str
    max_model_len: int | None
    notes: tuple[str, ...]
    swap_ns_per_block: int | None = None


def build_cost_model(config: RunConfig) -> LoadedCostModel:
    """The prices a config asks for.

    Raises:
        ConfigError: no such table, or roofline without model and device.
        TableFormatError: the table is malformed or lacks provenance.
    """
    name = config.cost_model or DEFAULT_COST_MODEL
    if name == "roofline":
        return load_cost_model(
            name,
            model=config.model,
            device=config.device,
            tp=config.tensor_parallel_size,
            dtype=config.dtype,
            kv_dtype=_kv_dtype(config),
        )
    if not is_published(name):
        return load_cost_model(name)
    precision = {"dtype": config.dtype, "kv_dtype": _kv_dtype(config)}
    return load_cost_model(
        name,
        model=config.model,
        tp=config.tensor_parallel_size,
        **(precision if is_packaged(name) else {}),
    )


def describe_cost_model(config: RunConfig, table: CostTable) -> dict[str, object]:
    """For provenance: the table by content, its origin and its held-out error."""
    name = config.cost_model or DEFAULT_COST_MODEL
    bundled = BUNDLED_TABLES / f"{name}.yaml"
    path = bundled if bundled.is_file() else Path(name)
    return {
        "name": table.name,
        "kind": table.kind,
        "file": file_identity(path) if path.is_file() else None,
        "stamp": table.stamp,
        "held_out": dict(table.held_out) if table.held_out else None,
        "parameters": dict(table.parameters),
        "origin": table.provenance["origin"],
    }


def build_memory(config: RunConfig, table: CostTable) -> Memory:
    """The KV cache: as asked, from GPU memory, or what the table was measured with.

    Raises:
        ConfigError: several capacities are given, none can be known, or the table asked for
            prices another model, device or number of GPUs.
    """
    _refuse_other_parallelism(config, table)
    if config.cost_model is not None:
        refuse_another(table, bundled_tables(), model=config.model, device=config.device)
    given = [name for name in CAPACITIES if getattr(config, name) is not None]
    if config.device is not None and table.kind != "roofline":
        given.append("device")
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(map(flag_of, given))} both set the KV cache: give one")
    blocks, block_size, origin = _capacity(config, table, given[0] if given else None)
    kind = PrefixCache if config.enable_prefix_caching else KVCache
    return Memory(
        kind(blocks, block_size, config.watermark),
        origin,
        config.max_model_len or table.max_model_len,
        _notes(config, table, sized=bool(given) and given != ["kv_blocks"]),
        _swap_ns_per_block(config, block_size),
    )


def _swap_ns_per_block(config: RunConfig, block_size: int) -> int | None:
    """What moving a block to host memory costs, each way; None: preempt by recompute.

    Raises:
        ConfigError: two costs, no model to say how large a block is, or prefix caching is on.
    """
    per_block, bandwidth = config.swap_ms_per_block, config.swap_bandwidth_gb_s
    if per_block is None and bandwidth is None:
        return None
    if per_block is not None and bandwidth is not None:
        raise ConfigError("--swap-ms-per-block and --swap-bandwidth-gb-s price the same: give one")
    if config.enable_prefix_caching:
        raise ConfigError(
            "swapping is not modelled with prefix caching: add --no-enable-prefix-caching, or "
            "preempt by recompute"
        )
    if bandwidth is None:
        return ms_to_ns(per_block or 0.0)
    model = _model(config)
    per_token = model.kv_bytes_per_token(_kv_dtype(config), config.tensor_parallel_size)
    return round(per_token * block_size / bandwidth)


def _capacity(config: RunConfig, table: CostTable, given: str | None) -> tuple[int, int, str]:
    """Blocks, tokens a block, and how that is known."""
    block_size = config.block_size or DEFAULT_BLOCK_SIZE
    if config.kv_blocks is not None:
        return config.kv_blocks, block_size, "given"
    if given in ("kv_bytes", "kv_cache_gib"):
        size = config.kv_bytes or int((config.kv_cache_gib or 0) * GIB)
        return _blocks_in(size, config, block_size), block_size, f"{size} bytes of KV cache per GPU"
    if given in ("gpu_memory_gib", "device"):
        return _blocks_of_gpu(config, block_size), block_size, "from GPU memory"
    if table.kv is None:
        raise ConfigError(
            f"the KV cache has no size: cost table {table.name} carries none. Give --kv-blocks, "
            "or --kv-cache-gib with --model, or --gpu-memory-gib with --model"
        )
    if config.block_size in (None, table.kv.block_size):
        return table.kv.blocks, table.kv.block_size, table.kv.origin
    tokens = table.kv.blocks * table.kv.block_size
    return tokens // block_size, block_size, table.kv.origin


def _blocks_in(size_bytes: int, config: RunConfig, block_size: int) -> int:
    per_token = _model(config).kv_bytes_per_token(_kv_dtype(config), config.tensor_parallel_size)
    blocks = size_bytes // (per_token * block_size)
    if blocks < 1:
        raise ConfigError(
            f"a KV cache of {size_bytes} bytes does not hold one block of {block_size} tokens "
            f"at {per_token} bytes a token: give more"
        )
    return blocks


def _blocks_of_gpu(config: RunConfig, block_size: int) -> int:
    memory = int((config.gpu_memory_gib or 0) * GIB)
    if not memory and config.device:
        memory = find_gpu(config.device).memory_bytes
    model, gpus = _model(config), config.tensor_parallel_size
    reserve = config.activation_reserve_gib
    return kv_blocks_from_memory(
        gpu_memory_bytes=memory,
        gpu_memory_utilization=config.gpu_memory_utilization,
        weight_bytes=model.weight_bytes(config.dtype or "bfloat16", gpus),
        activation_reserve_bytes=(
            DEFAULT_ACTIVATION_RESERVE_BYTES if reserve is None else int(reserve * GIB)
        ),
        kv_bytes_per_token=model.kv_bytes_per_token(_kv_dtype(config), gpus),
        block_size=block_size,
    )


def _model(config: RunConfig) -> ModelConfig:
    if config.model is None:
        raise ConfigError(
            "memory becomes KV blocks only with a model: give --model (config.json or a bundled "
            "name), or --kv-blocks"
        )
    return find_model(config.model)


def _kv_dtype(config: RunConfig) -> str:
    return "bfloat16" if config.kv_dtype == "auto" else config.kv_dtype


def _refuse_other_parallelism(config: RunConfig, table: CostTable) -> None:
    asked, priced = config.tensor_parallel_size, table.provenance.get("tensor_parallel")
    if table.kind != "roofline" and asked != 1 and priced not in (None, asked):
        raise ConfigError(
            f"--tensor-parallel-size {asked}: cost table {table.name} prices {priced}; give the "
            "--cost-model of that many GPUs (runway list cost-models)"
        )


def _notes(config: RunConfig, table: CostTable, *, sized: bool) -> tuple[str, ...]:
    """Settings that change less than their name says. sized: the KV cache follows from bytes."""
    name = config.cost_model or ""
    if table.kind == "roofline" or is_packaged(name):
        return ()
    dtype = None if config.kv_dtype == "auto" else f"kv_dtype {config.kv_dtype}"
    unused = _unused_share(config)
    if sized:
        note = f"{dtype} sizes the KV cache; prices stay those of {table.name}"
        return (note, *unused) if dtype else unused
    is_used = config.swap_bandwidth_gb_s or is_published(name)
    model = config.model and not is_used and f"model {config.model}"
    weights = config.dtype and f"dtype {config.dtype}"
    told = tuple(
        f"{setting} is not used: prices are those of {table.name}, and the KV cache is not sized "
        "from bytes (--kv-cache-gib, --gpu-memory-gib)"
        for setting in (model, weights, dtype)
        if setting
    )
    return told + unused


def _unused_share(config: RunConfig) -> tuple[str, ...]:
    """vLLM's flag, where no GPU memory is given that it could be a share of."""
    share = config.gpu_memory_utilization
    if share == RunConfig.model_fields["gpu_memory_utilization"].default:
        return ()
    if config.gpu_memory_gib or config.device:
        return ()
    return (
        f"gpu_memory_utilization {share:g} is not used: it is a share of --gpu-memory-gib, which "
        "is not given; --kv-blocks sets the KV cache directly",
    )
