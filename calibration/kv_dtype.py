"""The dtype of the KV cache: what is written is quantised, what attention reads is de-quantised.

Names are vLLM's (`--kv-cache-dtype`). fp8 has a scale of 1, as vLLM without calibrated scales; int8
has one scale for the tensor, which puts four standard deviations of the random data in range.
"""

from __future__ import annotations

import difflib

import torch
from torch import Tensor

from .errors import CalibrationError

KV_DTYPES = {
    "auto": None,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
}
"""By name; `auto` is the dtype of the weights."""

INT8_SCALE = 4 / 127


def kv_dtype_of(name: str, dtype: torch.dtype) -> torch.dtype:
    """The dtype of the cache beside weights of `dtype`; CalibrationError for an unknown name."""
    if name not in KV_DTYPES:
        near = difflib.get_close_matches(name, KV_DTYPES, n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise CalibrationError(
            f"kv cache dtype {name!r} is not one of {', '.join(KV_DTYPES)}{hint}"
        )
    return KV_DTYPES[name] or dtype


def quantised(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The values as the cache holds them."""
    if dtype == torch.int8:
        return (values / INT8_SCALE).round_().clamp_(-127, 127).to(dtype)
    return values.to(dtype)


def dequantised(held: Tensor, dtype: torch.dtype) -> Tensor:
    """What the cache holds, as attention computes on it; the tensor itself if that is the same."""
    values = held.to(dtype)
    return values * INT8_SCALE if held.dtype == torch.int8 else values


def writable(held: Tensor) -> Tensor:
    """The same memory, of a dtype that may be assigned to by index: torch cannot with fp8."""
    return held.view(torch.uint8) if held.element_size() == 1 else held
