"""Attention over a KV cache with grouped queries, through the library that an engine would use.

A `Backend` is a pair of functions: all decodes at once, and one prompt chunk. Which one runs is
found by running it (`choose_backend`), for a library that can be imported may still lack a kernel
for this device, dtype or head size.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from .attention_libraries import (
    flash_attn_of_chunk,
    flash_attn_of_decodes,
    flashinfer_of_chunk,
    flashinfer_of_decodes,
)
from .batch import Batch, Cache, Chunk
from .errors import CalibrationError
from .kv_dtype import dequantised

CLOSE = 0.05
"""Relative distance at which two libraries give the same attention, in 16 bits and less."""


class Backend(NamedTuple):
    """title: for people. module: what it is imported from. Tensors as in the functions below.

    pads: whether every decode attends as far as the longest of its batch.
    """

    title: str
    module: str
    of_decodes: Callable[[Tensor, Cache, Batch], Tensor]
    of_chunk: Callable[[Tensor, Cache, Chunk], Tensor]
    pads: bool = False


def sdpa_of_decodes(q: Tensor, held: Cache, batch: Batch) -> Tensor:
    """One token of every sequence, over its context and itself.

    q: (decodes, heads, head size), as what is returned.
    """
    n, longest = batch.decodes, batch.mask.shape[-1]
    keys, values = (dequantised(half[:n, :, :longest], q.dtype) for half in held)
    # The queries that share keys are so many rows of one head: no kernel needs to know of groups.
    grouped = q.reshape(n, keys.shape[1], -1, q.shape[-1])
    out = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=batch.mask)
    return out.reshape(q.shape)


def sdpa_of_chunk(q: Tensor, held: Cache, chunk: Chunk) -> Tensor:
    """The tokens of one prompt chunk, over its past and, causally, themselves.

    q: (new tokens, heads, head size), as what is returned.
    """
    end = chunk.past + chunk.new
    keys, values = (dequantised(half[None, chunk.slot, :, :end], q.dtype) for half in held)
    queries = q.transpose(0, 1)[None]
    if chunk.past:
        # Typed as a tensor, which it is to SDPA: causal from the lower right corner.
        mask: Any = causal_lower_right(chunk.new, end)
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
    else:
        out = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    return out[0].transpose(0, 1)


TORCH_SDPA = Backend(
    *("torch scaled_dot_product_attention", "torch", sdpa_of_decodes, sdpa_of_chunk), pads=True
)
BACKENDS: Mapping[str, Backend] = {
    "flashinfer": Backend("FlashInfer", "flashinfer", flashinfer_of_decodes, flashinfer_of_chunk),
    "flash_attn": Backend("flash-attn", "flash_attn", flash_attn_of_decodes, flash_attn_of_chunk),
    "torch_sdpa": TORCH_SDPA,
}
"""By name, the first that runs is taken."""

Probe = Callable[[Backend], Tensor]
"""Runs attention of a small step through a backend."""


def choose_backend(wanted: str, device: torch.device, probe: Probe) -> tuple[Backend, list[str]]:
    """The first backend that runs here and gives what torch gives; why those before it do not.

    wanted: a name of `BACKENDS`, or `auto`. Raises CalibrationError if it is unknown or does not
    run, with the reason, and if none does.
    """
    if wanted not in (*BACKENDS, "auto"):
        near = difflib.get_close_matches(wanted, ["auto", *BACKENDS], n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise CalibrationError(
            f"attention backend {wanted!r} is not one of auto, {', '.join(BACKENDS)}{hint}"
        )
    refused: list[str] = []
    for name, backend in BACKENDS.items():
        if wanted not in (name, "auto"):
            continue
        reason = _why_not(backend, device, probe)
        if reason is None:
            return backend, refused
        refused.append(f"{name}: {reason}")
    remedy = "take --kv-cache-dtype auto" if wanted == "auto" else "take --attention-backend auto"
    raise CalibrationError(f"attention does not run on {device} ({'; '.join(refused)}): {remedy}")


def _why_not(backend: Backend, device: torch.device, probe: Probe) -> str | None:
    """Why a backend is not to be used here; None if it is."""
    if backend.module != "torch":
        if device.type != "cuda":
            return "its kernels are for CUDA devices"
        if importlib.util.find_spec(backend.module) is None:
            return "not installed"
    try:
        got = probe(backend).float()
        if backend is TORCH_SDPA:
            return None if bool(got.isfinite().all()) else "gives numbers that are not finite"
        wanted = probe(TORCH_SDPA).float()
    # A library that cannot run may raise anything while it compiles or launches.
    except Exception as error:
        return str(error).strip().partition("\n")[0] or type(error).__name__
    # Written so that NaN is a difference.
    if not (got - wanted).norm() <= CLOSE * wanted.norm():
        return "gives other numbers than torch"
    return None
