"""`RooflineCostModel`: step prices from a datasheet and a model's sizes, measured by nobody.

Source: Williams, Waterman and Patterson, "Roofline" (CACM 2009): a kernel takes the longer of
its arithmetic at peak FLOP/s and its traffic at peak bandwidth. Kernels run one after the other:

    matrices           2 FLOPs per weight and token, against the weights read once per step; of
                       experts, at most as many as the tokens were sent to
    prefill attention  per chunk: FLOPs of its token pairs, against its KV read and written
    decode attention   per sequence: FLOPs over its context, against its KV cache read
    all-reduce         two per layer under tensor parallelism, 2 (tp - 1) / tp of the activations

Peaks are scaled by two visible efficiencies. Launch and host time are `step_overhead_ms`, 0
unless given; FLOP/s are bf16's, whatever the dtype of the weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.plan import StepShape

from .hardware import GPU
from .model_config import ModelConfig
from .model_memory import (
    DEFAULT_ACTIVATION_RESERVE_BYTES,
    kv_blocks_from_memory,
    linear_bytes,
)
from .pricing import EXACT_BELOW_NS, checked, leap_prices_ns, on_grid, whole_ns
from .table import CostTable, KVCapacity, hand_written
from .yaml_text import Value

FLOPS_EFFICIENCY = 0.7
BANDWIDTH_EFFICIENCY = 0.8
"""Assumed shares of the peaks that good kernels reach; change them, they are arguments."""

GPU_MEMORY_UTILIZATION = 0.9
BLOCK_SIZE = 16


class RooflineCostModel:
    """Prices from a `GPU` and a `ModelConfig` on `tensor_parallel` GPUs, always "uncalibrated".

    dtype: of the weights; kv_dtype: of the KV cache. Efficiencies: above 0, at most 1.
    Raises ConfigError for a value out of range, or a model that does not fit the memory.
    """

    __slots__ = (
        *("_context_ns", "_head_ns", "_kv_ns", "_pair_ns", "_step_ns", "_sync_ns", "_token_ns"),
        *("_expert_ns", "_experts", "_experts_per_token"),
        *("_weights_ns", "needs_longest_context", "stamp", "table"),
    )

    def __init__(
        self,
        gpu: GPU,
        model: ModelConfig,
        *,
        tensor_parallel: int = 1,
        dtype: str = "bfloat16",
        kv_dtype: str = "bfloat16",
        flops_efficiency: float = FLOPS_EFFICIENCY,
        bandwidth_efficiency: float = BANDWIDTH_EFFICIENCY,
        step_overhead_ms: float = 0.0,
        table: CostTable | None = None,
    ) -> None:
        tp = tensor_parallel
        for name, share in (("flops", flops_efficiency), ("bandwidth", bandwidth_efficiency)):
            if not 0 < share <= 1:
                raise ConfigError(f"{name}_efficiency is {share}: must be above 0 and at most 1")
        kv_bytes = model.kv_bytes_per_token(kv_dtype, tp)
        ns_per_flop = 1e9 / (gpu.flops * flops_efficiency * tp)
        ns_per_byte = 1e9 / (gpu.bandwidth_bytes_per_s * bandwidth_efficiency)
        dense = model.layers * model.dense_layer_weights
        matrices = model.layers * model.active_layer_weights
        read_bytes = (linear_bytes(dense, dtype) + 2 * model.lm_head_weights) / tp
        expert_bytes = linear_bytes(model.layers * model.expert_weights, dtype) / tp
        self._step_ns = checked({"step_overhead_ms": step_overhead_ms})["step_overhead_ms"] * 1e6
        self._weights_ns = read_bytes * ns_per_byte
        self._experts, self._experts_per_token = model.experts, model.experts_per_token
        self._expert_ns = expert_bytes * ns_per_byte
        self._token_ns = 2 * matrices * ns_per_flop
        self._head_ns = 2 * model.lm_head_weights * ns_per_flop
        self._pair_ns = model.attention_flops_per_pair * ns_per_flop
        self._kv_ns = kv_bytes * ns_per_byte
        self._context_ns = on_grid(max(self._pair_ns, self._kv_ns))
        reduced_bytes = 2 * model.layers * model.hidden_size * 2 * 2 * (tp - 1) / tp
        self._sync_ns = reduced_bytes * 1e9 / gpu.link_bytes_per_s
        self.needs_longest_context = False
        assumed: dict[str, Value] = {
            **{"gpu": gpu.title, "model": model.name, "tensor_parallel": tp, "dtype": dtype},
            **{"kv_dtype": kv_dtype, "flops_efficiency": flops_efficiency},
            **{"bandwidth_efficiency": bandwidth_efficiency, "step_overhead_ms": step_overhead_ms},
        }
        self.table = table or _table(gpu, model, assumed, model.weight_bytes(dtype, tp), kv_bytes)
        self.stamp = self.table.stamp

    def step_ns(self, shape: StepShape) -> int:
        """Price one step, nanoseconds, at least 1."""
        chunks, seqs, context, _ = shape
        return whole_ns(self._fixed_ns(chunks, seqs) + context * self._context_ns)

    def leap_ns(self, shape: StepShape, steps: int) -> NDArray[np.int64]:
        """Price `steps` consecutive decode-only steps; int64, shape (steps,), each at least 1."""
        chunks, seqs, context, _ = shape
        first = self._fixed_ns(chunks, seqs) + context * self._context_ns
        slope = seqs * self._context_ns
        if first + steps * slope >= EXACT_BELOW_NS:
            return np.array([self.step_ns(shape.after(k)) for k in range(steps)], dtype=np.int64)
        return leap_prices_ns(first, slope, steps)

    def explain(self, shape: StepShape) -> list[tuple[str, float]]:
        """(term, milliseconds) of a step; their sum is its price, to the nanosecond."""
        chunks, seqs, context, _ = shape
        matrices_ns, bound = self._matrices_ns(chunks, seqs)
        terms = [
            ("step overhead", self._step_ns),
            (f"matrices, bound by {bound}", matrices_ns),
            ("all-reduce", self._sync_ns * (seqs + shape.prefill_tokens)),
            ("attention of chunks", self._prefill_attention_ns(chunks)),
            ("attention of decodes", (context + seqs) * self._context_ns),
        ]
        return [(term, price_ns / 1e6) for term, price_ns in terms]

    def _fixed_ns(self, chunks: tuple[tuple[int, int], ...], seqs: int) -> float:
        """All but the KV cache that decodes read from earlier steps."""
        tokens = seqs
        for new, _ in chunks:
            tokens += new
        attention = self._prefill_attention_ns(chunks)
        matrices, _ = self._matrices_ns(chunks, seqs)
        # Each decoding sequence also reads the token it has just written.
        own = seqs * self._context_ns
        return on_grid(self._step_ns + matrices + self._sync_ns * tokens + attention + own)

    def _matrices_ns(self, chunks: tuple[tuple[int, int], ...], seqs: int) -> tuple[float, str]:
        """Price of the matrices, and what bounds it."""
        tokens = seqs
        for new, _ in chunks:
            tokens += new
        arithmetic = self._token_ns * tokens + self._head_ns * (seqs + len(chunks))
        weights = self._weights_ns
        if self._experts:
            weights += self._expert_ns * min(self._experts, self._experts_per_token * tokens)
        return (arithmetic, "FLOP/s") if arithmetic > weights else (weights, "bandwidth")

    def _prefill_attention_ns(self, chunks: tuple[tuple[int, int], ...]) -> float:
        attention = 0.0
        for new, past in chunks:
            flops_ns = self._pair_ns * (new * (past + 0.5 * new))
            attention += max(flops_ns, self._kv_ns * (past + new))
        return attention


def _table(
    gpu: GPU, model: ModelConfig, assumed: dict[str, Value], weight_bytes: int, kv_bytes: int
) -> CostTable:
    gpus = f"{assumed['tensor_parallel']} x {gpu.title}"
    return hand_written(
        "roofline",
        f"roofline of {model.name} on {gpus}, from its datasheet",
        assumed,
        origin=f"hand-written from the {gpu.source}",
        kv=_kv_capacity(gpu, weight_bytes, kv_bytes),
        max_model_len=model.max_model_len,
    )


def _kv_capacity(gpu: GPU, weight_bytes: int, kv_bytes_per_token: int) -> KVCapacity:
    blocks = kv_blocks_from_memory(
        gpu_memory_bytes=gpu.memory_bytes,
        gpu_memory_utilization=GPU_MEMORY_UTILIZATION,
        weight_bytes=weight_bytes,
        activation_reserve_bytes=DEFAULT_ACTIVATION_RESERVE_BYTES,
        kv_bytes_per_token=kv_bytes_per_token,
        block_size=BLOCK_SIZE,
    )
    origin = (
        f"derived: {GPU_MEMORY_UTILIZATION:.0%} of {gpu.title} memory less the weights and "
        f"{DEFAULT_ACTIVATION_RESERVE_BYTES / 2**30:.0f} GiB of activations"
    )
    return KVCapacity(blocks, BLOCK_SIZE, origin)
