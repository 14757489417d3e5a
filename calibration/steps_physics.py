"""What a datasheet and a model's sizes say about step prices before any step is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from costmodels.hardware import GPU
from costmodels.model_config import ModelConfig

from .steps_terms import ExpertReads, Form

BYTES_PER_CLOCK = 64
"""What one multiprocessor can read in a clock: the width of its port to the L2 cache.

Assumed: no datasheet says so. It was taken up after logs of Qwen3-32B on 1, 2 and 4 B300 had been
seen, where free fits find a price of the longest context from 0.98 to 1.2 times the one it gives.
A log with unequal contexts overrules it.
"""
BANDWIDTH_EFFICIENCY = 0.8
"""Share of the datasheet's bandwidth that a read of the whole KV cache reaches; assumed."""

VLLM_CAPTURED_TOKENS = 512
VLLM_BATCH_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, VLLM_CAPTURED_TOKENS + 1, 16))
"""Batch sizes for which vLLM captures CUDA graphs by default.

Source: vLLM 0.20, `CompilationConfig.cudagraph_capture_sizes`, `max_cudagraph_capture_size`.
"""


class Physics(NamedTuple):
    """What is known before any fit; None or (): not known.

    attention_tokens_per_pair: FLOPs of a token pair's attention / of a token's matrices.
    batch_sizes: decode batches that CUDA graphs were captured for. has_experts: padding a batch
        can read the weights of more experts, so that each captured batch has a price of its own;
        in a dense model it reads nothing more. wave: multiprocessors / KV heads per GPU.
    block_ms_per_token: KV bytes of a token and KV head / what one multiprocessor can read.
    read_ms_per_token: KV bytes of a token / bandwidth, for logs that cannot tell the price of a
        context from that of a sequence. captured_tokens: of the largest CUDA graph.
    experts: all experts of a layer, and what reading one of every layer takes.
    """

    attention_tokens_per_pair: float | None = None
    batch_sizes: tuple[int, ...] = ()
    has_experts: bool | None = None
    wave: float | None = None
    block_ms_per_token: float | None = None
    read_ms_per_token: float | None = None
    captured_tokens: int | None = None
    experts: ExpertReads | None = None

    @property
    def form(self) -> Form:
        """What needs no evidence from a log, being known."""
        known = self.wave is not None and self.block_ms_per_token is not None
        return Form(
            attention_tokens_per_pair=self.attention_tokens_per_pair or 0.0,
            padded_sizes=self.batch_sizes,
            experts=self.experts,
            wave=self.wave if known else None,
            is_max=known,
            block_ms_per_token=self.block_ms_per_token if known else None,
        )


class AttentionSizes(NamedTuple):
    """Sizes of a model's attention, and of its experts. layers: those that keep a KV cache.

    tokens_per_pair: FLOPs of a token pair / of a token's matrices; None: not known. experts,
    experts_per_token: of a layer; 0: dense, or not known. expert_weights: of one expert, summed
    over all layers.
    """

    layers: int
    kv_heads: int
    head_dim: int
    has_experts: bool
    tokens_per_pair: float | None
    experts: int = 0
    experts_per_token: int = 0
    expert_weights: int = 0

    @classmethod
    def of(cls, model: ModelConfig) -> AttentionSizes:
        """Those of a model."""
        return cls(
            layers=model.layers,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            has_experts=model.experts > 0,
            tokens_per_pair=model.attention_tokens_per_pair,
            experts=model.experts,
            experts_per_token=model.experts_per_token,
            expert_weights=model.layers * model.expert_weights,
        )


def physics_of(
    gpu: GPU | None,
    sizes: AttentionSizes | None,
    *,
    tensor_parallel: int = 1,
    bytes_per_element: int = 2,
    batch_sizes: Sequence[int] = VLLM_BATCH_SIZES,
    captured_tokens: int | None = VLLM_CAPTURED_TOKENS,
) -> Physics:
    """What is known of a model on a GPU; None for either: not known.

    With tensor parallelism each GPU keeps its share of the KV heads, at least one.

    Qwen3-32B on one B300: 18.5 sequences to a wave; a block reads a token of all layers in 267 ns:

    >>> from costmodels import GPUS, find_model
    >>> physics = physics_of(GPUS["b300-sxm"], AttentionSizes.of(find_model("qwen3-32b")))
    >>> physics.wave, round(physics.block_ms_per_token * 1e6)
    (18.5, 267)
    """
    known = Physics(
        batch_sizes=tuple(batch_sizes),
        captured_tokens=captured_tokens,
        has_experts=sizes.has_experts if sizes else None,
        attention_tokens_per_pair=sizes.tokens_per_pair if sizes else None,
    )
    if gpu is None or sizes is None or gpu.multiprocessors is None or gpu.clock_hz is None:
        return known
    bandwidth = BANDWIDTH_EFFICIENCY * gpu.bandwidth_bytes_per_s
    experts = None
    if sizes.experts:
        expert_bytes = sizes.expert_weights * bytes_per_element / tensor_parallel
        experts = ExpertReads(
            sizes.experts, sizes.experts_per_token, 1e3 * expert_bytes / bandwidth
        )
    heads = max(1, sizes.kv_heads // tensor_parallel)
    bytes_per_head = 2 * sizes.layers * sizes.head_dim * bytes_per_element
    read_s = bytes_per_head * heads / bandwidth
    return known._replace(
        experts=experts,
        wave=gpu.multiprocessors / heads,
        block_ms_per_token=1e3 * bytes_per_head / (BYTES_PER_CLOCK * gpu.clock_hz),
        read_ms_per_token=1e3 * read_s,
    )
