"""Bytes: of quantised weights and KV, and the KV blocks that fit beside the weights."""

from __future__ import annotations

from simulator.errors import ConfigError, nearest

ELEMENT_BYTES = {
    **{"float16": 2.0, "fp16": 2.0, "bfloat16": 2.0, "bf16": 2.0},
    **{"fp8": 1.0, "fp8_static": 1.0, "fp8_block": 1.0, "int8": 1.0, "int4": 0.5},
}
"""Bytes of one element, by dtype, without scales."""

INT4_WEIGHTS_PER_SCALE = 128
INT4_KV_BYTES_PER_HEAD = 4
"""A 2-byte scale and a 2-byte zero point per token and head."""

DEFAULT_ACTIVATION_RESERVE_BYTES = 4 * 1024**3
"""Assumed, not measured: activations of the largest step, CUDA graphs and the CUDA context."""


def element_bytes(dtype: str) -> float:
    """Bytes of one element without scales; ConfigError lists the known dtypes."""
    if dtype not in ELEMENT_BYTES:
        raise ConfigError(
            f"dtype {dtype!r} is unknown{nearest(dtype, ELEMENT_BYTES)}"
            f" (known: {', '.join(ELEMENT_BYTES)})"
        )
    return ELEMENT_BYTES[dtype]


def linear_bytes(weights: int, dtype: str) -> float:
    """Bytes of a number of matrix weights, scales included.

    >>> linear_bytes(1280, "int4")
    660.0
    """
    scales = 2 * weights / INT4_WEIGHTS_PER_SCALE if dtype == "int4" else 0
    return weights * element_bytes(dtype) + scales


def kv_bytes_per_head(head_dim: int, kv_dtype: str) -> int:
    """Bytes of one token's key (or value) in one head, scales included.

    >>> kv_bytes_per_head(128, "bf16"), kv_bytes_per_head(128, "int4")
    (256, 68)
    """
    scales = INT4_KV_BYTES_PER_HEAD if kv_dtype == "int4" else 0
    return whole_bytes(head_dim * element_bytes(kv_dtype)) + scales


def whole_bytes(count: float) -> int:
    """Rounded up to whole bytes."""
    return -int(-count // 1)


def heads_per_gpu(heads: int, tp: int, what: str) -> int:
    """Heads on each of `tp` GPUs: split evenly, or one copy each if there are fewer heads.

    >>> heads_per_gpu(8, 4, "KV heads"), heads_per_gpu(8, 16, "KV heads")
    (2, 1)
    """
    if tp < 1 or (heads % tp and tp % heads):
        raise ConfigError(f"tensor parallel {tp} does not divide {heads} {what}")
    return max(1, heads // tp)


def kv_blocks_from_memory(
    *,
    gpu_memory_bytes: int,
    gpu_memory_utilization: float,
    weight_bytes: int,
    activation_reserve_bytes: int,
    kv_bytes_per_token: int,
    block_size: int,
) -> int:
    """KV blocks of `block_size` tokens that fit on one GPU, as an engine counts them at start-up.

    Everything is per GPU; utilisation is the share of the memory the engine may use. 80 GB at
    0.9, 16 GB of weights, 4 GB of activations leave 52 GB: 24,795 blocks of 16 x 131,072 bytes.

    >>> kv_blocks_from_memory(
    ...     gpu_memory_bytes=80_000_000_000, gpu_memory_utilization=0.9,
    ...     weight_bytes=16_000_000_000, activation_reserve_bytes=4_000_000_000,
    ...     kv_bytes_per_token=131_072, block_size=16)
    24795

    Raises ConfigError if nothing is left, or a value is out of range.
    """
    if not 0 < gpu_memory_utilization <= 1:
        raise ConfigError(
            f"gpu_memory_utilization is {gpu_memory_utilization}: must be above 0 and at most 1"
        )
    if min(gpu_memory_bytes, kv_bytes_per_token, block_size) < 1:
        raise ConfigError("gpu_memory_bytes, kv_bytes_per_token and block_size must be at least 1")
    usable = int(gpu_memory_bytes * gpu_memory_utilization)
    left = usable - weight_bytes - activation_reserve_bytes
    blocks = left // (kv_bytes_per_token * block_size)
    if blocks < 1:
        raise ConfigError(
            f"no memory is left for the KV cache: {_gb(gpu_memory_bytes)} x "
            f"{gpu_memory_utilization} = {_gb(usable)}, weights {_gb(weight_bytes)}, activations "
            f"{_gb(activation_reserve_bytes)}: use more GPUs (tensor parallel), a smaller dtype "
            "or a higher gpu_memory_utilization"
        )
    return blocks


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
