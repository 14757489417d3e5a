"""A configuration as the flags of `vllm serve`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.config import RunConfig

FLAGS: Mapping[str, str] = {
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "max_num_seqs": "--max-num-seqs",
    "chunk_size": "--long-prefill-token-threshold",
    "block_size": "--block-size",
    "kv_blocks": "--num-gpu-blocks-override",
    "max_model_len": "--max-model-len",
    "tensor_parallel_size": "--tensor-parallel-size",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "kv_dtype": "--kv-cache-dtype",
    "scheduling_policy": "--scheduling-policy",
}
"""Setting -> the flag of vLLM that says the same."""

SWITCHES: Mapping[str, str] = {
    "enable_chunked_prefill": "enable-chunked-prefill",
    "enable_prefix_caching": "enable-prefix-caching",
    "async_scheduling": "async-scheduling",
}
"""Setting -> a flag with `--no-` for off."""

ALWAYS = ("max_num_batched_tokens", "max_num_seqs", "chunk_size")
"""What the flags always say, because a scheduler's steps follow from it."""

KV_SIZES = ("kv_blocks", "kv_bytes", "kv_cache_gib")
"""Settings that say how much KV cache there is, whatever the GPU."""

ALIKE = ("vllm", "chunked")
"""Schedulers that vLLM can be set to: its own, and one of the same kind."""


def vllm_flags(
    scheduler: str,
    resolved: Mapping[str, Any],  # Any: YAML values
    named: tuple[str, ...] = (),
    *,
    kv_blocks: int | None = None,
) -> str | None:
    """The flags to paste; None for a policy that vLLM has not.

    resolved: settings with defaults filled in. named: knobs, which are said even at a default.
    kv_blocks: those of the run, said if a setting gives their number or bytes; vLLM counts one
    more, its null block, which holds nothing.

    >>> settings = {"max_num_batched_tokens": 4096, "max_num_seqs": 128, "chunk_size": 512}
    >>> vllm_flags("vllm", settings)
    '--max-num-batched-tokens 4096 --max-num-seqs 128 --long-prefill-token-threshold 512'
    >>> vllm_flags("vllm", {**settings, "async_scheduling": False}, ("async_scheduling",))[-21:]
    '--no-async-scheduling'
    """
    if scheduler not in ALIKE:
        return None
    is_sized = any(resolved.get(name) is not None for name in KV_SIZES)
    counted = kv_blocks + 1 if is_sized and kv_blocks is not None else None
    parts = []
    for name, flag in FLAGS.items():
        value = counted if name == "kv_blocks" else resolved.get(name)
        said = name in ALWAYS or name in named or value != RunConfig.model_fields[name].default
        if said and value is not None:
            parts.append(f"{flag} {value}")
    for name, flag in SWITCHES.items():
        if name in named and resolved.get(name) is not None:
            parts.append(f"--{flag}" if resolved[name] else f"--no-{flag}")
    return " ".join(parts)
