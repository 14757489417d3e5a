"""Recordings whose servers cannot have computed every prompt: prefix caching was on.

vLLM keeps the blocks of prompts unless it is told not to, and a load generator that repeats its
prompts then measures decodes almost alone. The file does not say where that was so; arithmetic
does. By Little's law users / (TTFT + (output - 1) x TPOT) requests end a second; where computing
them takes more than the quickest GEMM that NVIDIA measured on these GPUs could, most prompts were
not computed. One such row stands for its recording, whose servers and clients were the same.

Only measured columns and the GEMM tables decide, no prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from costmodels.aiconfigurator import fastest_gemm_flops
from costmodels.model_config import find_model

REUSED = "prompts re-used: computing all of them is beyond the GPU"


class Load(Protocol):
    """What is asked of a row; lengths in tokens, times in ms."""

    @property
    def system(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def tp(self) -> int: ...
    @property
    def mean_isl(self) -> float: ...
    @property
    def mean_osl(self) -> float: ...
    @property
    def users(self) -> int: ...
    @property
    def ttft_ms(self) -> float: ...
    @property
    def tpot_ms(self) -> float: ...


def reuses_prompts(recording: Sequence[Load]) -> bool:
    """Does any row of it need more FLOP/s than its GPUs reached in any GEMM?"""
    return any(flops_needed(row) > row.tp * _fastest(row) for row in recording)


def flops_needed(row: Load) -> float:
    """FLOP/s of the layers' matrices for all tokens, and of the prompts' attention."""
    model = find_model(row.model)
    matrices = 2 * model.layers * model.active_layer_weights
    attention = model.attention_flops_per_pair * row.mean_isl**2 / 2
    each = (row.mean_isl + row.mean_osl) * matrices + attention
    seconds = (row.ttft_ms + (row.mean_osl - 1) * row.tpot_ms) / 1000
    return row.users * each / seconds


@lru_cache(maxsize=64)
def _measured(name: str, dtype: str) -> float:
    return fastest_gemm_flops(name, dtype)


def _fastest(row: Load) -> float:
    return _measured(f"{row.system}/{row.backend}", row.dtype)
