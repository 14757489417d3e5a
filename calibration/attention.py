"""Attention over a padded KV cache with grouped queries: flash-attn on CUDA, else torch's SDPA."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from .batch import Batch, Cache, Chunk


@cache
def attention_library(device: torch.device, dtype: torch.dtype) -> str:
    """The library whose attention kernels run there: `flash_attn` or `torch`."""
    fits = device.type == "cuda" and dtype in (torch.float16, torch.bfloat16)
    return "flash_attn" if fits and importlib.util.find_spec("flash_attn") else "torch"


def attention_of_decodes(q: Tensor, held: Cache, batch: Batch) -> Tensor:
    """One token of every sequence, over its context and itself.

    q: (decodes, heads, head size), as what is returned.
    """
    n, longest = batch.decodes, batch.mask.shape[-1]
    if attention_library(q.device, q.dtype) == "flash_attn":
        return _flash_decodes(q, held, batch)
    keys, values = held.keys[:n, :, :longest], held.values[:n, :, :longest]
    # The queries that share keys are so many rows of one head: no kernel needs to know of groups.
    grouped = q.reshape(n, keys.shape[1], -1, q.shape[-1])
    out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=batch.mask)
    return out.reshape(q.shape)


def attention_of_chunk(q: Tensor, held: Cache, chunk: Chunk) -> Tensor:
    """The tokens of one prompt chunk, over its past and, causally, themselves.

    q: (new tokens, heads, head size), as what is returned.
    """
    end = chunk.past + chunk.new
    if attention_library(q.device, q.dtype) == "flash_attn":
        return _flash_chunk(q, held, chunk)
    keys, values = held.keys[None, chunk.slot, :, :end], held.values[None, chunk.slot, :, :end]
    queries = q.transpose(0, 1)[None]
    if chunk.past:
        # Typed as a tensor, which it is to SDPA: causal from the lower right corner.
        mask: Any = causal_lower_right(chunk.new, end)
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
    else:
        out = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    return out[0].transpose(0, 1)


def _flash() -> Any:  # Any: the library has no types, and is not there on most machines
    return importlib.import_module("flash_attn")


def _flash_decodes(q: Tensor, held: Cache, batch: Batch) -> Tensor:
    n = batch.decodes
    keys, values = (half[:n].transpose(1, 2) for half in held)
    out: Tensor = _flash().flash_attn_with_kvcache(
        q[:, None], keys, values, cache_seqlens=(batch.contexts + 1).int(), causal=True
    )
    return out[:, 0]


def _flash_chunk(q: Tensor, held: Cache, chunk: Chunk) -> Tensor:
    end = chunk.past + chunk.new
    keys, values = (half[chunk.slot, :, :end].transpose(0, 1)[None] for half in held)
    out: Tensor = _flash().flash_attn_func(q[None], keys, values, causal=True)
    return out[0]
