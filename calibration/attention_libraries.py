"""Attention of the libraries that serving engines use on CUDA: FlashInfer and flash-attn.

Neither is typed nor there on most machines, so both are imported when they run.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any  # Any: libraries without types

import torch
from torch import Tensor

from .batch import Batch, Cache, Chunk
from .kv_dtype import dequantised

WORKSPACE_BYTES = 128 << 20
"""What FlashInfer's documentation asks for."""
TENSOR_CORES_FROM = 4
"""Queries per KV head from which FlashInfer decodes on tensor cores, as vLLM has it."""


def flash_attn_of_decodes(q: Tensor, held: Cache, batch: Batch) -> Tensor:
    """As `attention.sdpa_of_decodes`."""
    n = batch.decodes
    keys, values = (dequantised(half[:n], q.dtype).transpose(1, 2) for half in held)
    out: Tensor = _library("flash_attn").flash_attn_with_kvcache(
        q[:, None], keys, values, cache_seqlens=(batch.contexts + 1).int(), causal=True
    )
    return out[:, 0]


def flash_attn_of_chunk(q: Tensor, held: Cache, chunk: Chunk) -> Tensor:
    """As `attention.sdpa_of_chunk`: its causal mask, too, starts from the lower right corner."""
    end = chunk.past + chunk.new
    keys, values = (
        dequantised(half[chunk.slot, :, :end], q.dtype).transpose(0, 1)[None] for half in held
    )
    out: Tensor = _library("flash_attn").flash_attn_func(q[None], keys, values, causal=True)
    return out[0]


def flashinfer_of_decodes(q: Tensor, held: Cache, batch: Batch) -> Tensor:
    """As `attention.sdpa_of_decodes`, over a paged cache: each sequence is a page of its own.

    Reads an fp8 cache as it is.
    """
    width = held.keys.shape[2]
    if width not in batch.plans:
        batch.plans[width] = _planned(q, held, batch)
    keys, values = (half[: batch.decodes] for half in held)
    out: Tensor = batch.plans[width].run(q.contiguous(), (keys, values))
    return out


def flashinfer_of_chunk(q: Tensor, held: Cache, chunk: Chunk) -> Tensor:
    """As `attention.sdpa_of_chunk`."""
    end = chunk.past + chunk.new
    keys, values = (dequantised(half[chunk.slot, :, :end], q.dtype) for half in held)
    out: Tensor = _library("flashinfer").single_prefill_with_kv_cache(
        q.contiguous(), keys, values, causal=True, kv_layout="HND"
    )
    return out


def _planned(q: Tensor, held: Cache, batch: Batch) -> Any:
    """FlashInfer's plan of a batch, with buffers of its own so that a CUDA graph may hold it."""
    kv_heads, width, head_dim = held.keys.shape[1:]
    n, device = batch.decodes, q.device
    starts = torch.arange(n + 1, dtype=torch.int32)
    lengths = (batch.contexts + 1).int()
    wrapper = _library("flashinfer").BatchDecodeWithPagedKVCacheWrapper(
        _workspace(device),
        "HND",
        use_cuda_graph=True,
        use_tensor_cores=q.shape[1] // kv_heads >= TENSOR_CORES_FROM,
        paged_kv_indptr_buffer=starts.to(device),
        paged_kv_indices_buffer=starts[:-1].to(device),
        paged_kv_last_page_len_buffer=lengths.clone(),
    )
    wrapper.plan(
        starts,
        starts[:-1].to(device),
        lengths.cpu(),
        *(q.shape[1], kv_heads, head_dim, width),
        pos_encoding_mode="NONE",
        q_data_type=q.dtype,
        kv_data_type=held.keys.dtype,
    )
    return wrapper


@cache
def _workspace(device: torch.device) -> Tensor:
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device)


def _library(name: str) -> Any:
    return importlib.import_module(name)
