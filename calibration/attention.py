"""Attention over a padded KV cache with grouped queries: flash-attn on CUDA, else torch's SDPA."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

if TYPE_CHECKING:
    from .kernels import Batch, Cache, Chunk


def attention_library(device: torch.device, dtype: torch.dtype) -> str:
    """The library whose attention kernels run there: `flash_attn` or `torch`."""
    fits = device.type == "cuda" and dtype in (torch.float16, torch.bfloat16)
    return "flash_attn" if fits and importlib.util.find_spec("flash_attn") else "torch"


def attention_of_decodes(q: Tensor, cache: Cache, batch: Batch) -> Tensor:
    """One token of every sequence, over its context and itself.

    q: (decodes, heads, head size), as what is returned.
    """
    n, longest = batch.decodes, batch.mask.shape[-1]
    if attention_library(q.device, q.dtype) == "flash_attn":
        return _flash_decodes(q, cache, batch)
    keys, values = cache.keys[:n, :, :longest], cache.values[:n, :, :longest]
    out = F.scaled_dot_product_attention(
        q[:, :, None], keys, values, attn_mask=batch.mask, enable_gqa=True
    )
    return out[:, :, 0]


def attention_of_chunk(q: Tensor, cache: Cache, chunk: Chunk) -> Tensor:
    """The tokens of one prompt chunk, over its past and, causally, themselves.

    q: (new tokens, heads, head size), as what is returned.
    """
    end = chunk.past + chunk.new
    if attention_library(q.device, q.dtype) == "flash_attn":
        return _flash_chunk(q, cache, chunk)
    keys, values = cache.keys[None, chunk.slot, :, :end], cache.values[None, chunk.slot, :, :end]
    queries = q.transpose(0, 1)[None]
    if chunk.past:
        # Typed as a tensor, which it is to SDPA: causal from the lower right corner.
        mask: Any = causal_lower_right(chunk.new, end)
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
    else:
        out = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    return out[0].transpose(0, 1)


def _flash_decodes(q: Tensor, cache: Cache, batch: Batch) -> Tensor:
    from flash_attn import flash_attn_with_kvcache

    n = batch.decodes
    keys, values = (half[:n].transpose(1, 2) for half in cache)
    out: Tensor = flash_attn_with_kvcache(
        q[:, None], keys, values, cache_seqlens=(batch.contexts + 1).int(), causal=True
    )
    return out[:, 0]


def _flash_chunk(q: Tensor, cache: Cache, chunk: Chunk) -> Tensor:
    from flash_attn import flash_attn_func

    end = chunk.past + chunk.new
    keys, values = (half[chunk.slot, :, :end].transpose(0, 1)[None] for half in cache)
    out: Tensor = flash_attn_func(q[None], keys, values, causal=True)
    return out[0]
