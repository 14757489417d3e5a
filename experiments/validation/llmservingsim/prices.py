"""Prices of a run: its kernel tables as a cost model, and its KV cache. Nothing is fitted here."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from costmodels import CostTable, ModelConfig, Operator, OperatorsCostModel, kv_blocks_from_memory
from costmodels.importers import import_table
from costmodels.model_memory import DEFAULT_ACTIVATION_RESERVE_BYTES
from costmodels.section import Section
from simulator.errors import ConfigError

from .recorded import Recorded
from .sizes import BYTES, model_of, weight_bytes

GIB = 1024**3
MULTIPROCESSORS = {
    "NVIDIA GeForce RTX 4090": 128,
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": 188,
}
"""Source: NVIDIA's architecture papers (Ada, RTX PRO Blackwell). FlashAttention 2 runs on both."""
MESSAGES_BYTES = tuple(1 << power for power in range(10, 28))


def kernel_table(run: Recorded) -> CostTable:
    """The measured kernels of the run's GPU, with the all-reduce between its GPUs."""
    model = model_of(run.folder, run.model)
    table = import_table("llmservingsim", run.folder / "profile", model, tensor_parallel=run.gpus)
    if run.gpus == 1 or table.operators is None:
        return table
    link = Link.read(run.folder / "llmservingsim_cluster_config.json")
    counted = {**table.operators.counted, "all_reduce": link.all_reduce(run.gpus, model)}
    return replace(table, operators=replace(table.operators, counted=counted))


def cost_model(
    run: Recorded, table: CostTable, *, prefill_step_factor: float = 1.0
) -> OperatorsCostModel:
    """Steps of the run: tokens padded to the batch sizes vLLM captured, decodes and mixed alike.

    prefill_step_factor: how much longer prompts take than their kernels one by one.
    """
    assert table.operators is not None, table.name
    layers = int(str(table.parameters["layers"]))
    sizes = list(run.graph_sizes)
    return OperatorsCostModel(table.operators, layers=layers, table=table).with_parameters(
        decode_batch_sizes=sizes,
        mixed_batch_sizes=sizes,
        prefill_step_factor=prefill_step_factor,
        split_kv_below=split_kv_below(run, table),
    )


def split_kv_below(run: Recorded, table: CostTable) -> int:
    """The decode batch from which FlashAttention 2 splits no context; 0 for an unknown GPU.

    One thread block per sequence and KV head: no split once they are 0.8 of twice the
    multiprocessors. A CUDA graph keeps what was right for the batch it was captured with.
    Source: vllm-project/flash-attention, `csrc/flash_attn/flash_api.cpp`, `num_splits_heuristic`.
    """
    multiprocessors = MULTIPROCESSORS.get(str(table.provenance["device"]), 0)
    kv_heads = max(model_of(run.folder, run.model).kv_heads // run.gpus, 1)
    return ceil(0.8 * 2 * multiprocessors / kv_heads)


def usable_blocks(run: Recorded) -> tuple[int, str]:
    """(KV blocks of 16 tokens, how they are known). One block that vLLM counts is never used."""
    if run.kv_blocks is not None:
        return (
            run.kv_blocks - 1,
            f"{run.kv_blocks} KV blocks as recorded, one of them the null block",
        )
    gib = _memory_gib(run.folder / "llmservingsim_cluster_config.json")
    model = model_of(run.folder, run.model)
    blocks = kv_blocks_from_memory(
        gpu_memory_bytes=int(gib * GIB),
        gpu_memory_utilization=run.gpu_memory_utilization,
        weight_bytes=weight_bytes(model, run.gpus, run.replicas),
        activation_reserve_bytes=DEFAULT_ACTIVATION_RESERVE_BYTES,
        kv_bytes_per_token=model.kv_bytes_per_token(tp=run.gpus),
        block_size=16,
    )
    return blocks - 1, (
        f"{blocks} KV blocks, an estimate: {run.gpu_memory_utilization} of {gib:g} GiB a GPU, less "
        "weights and 4 GiB"
    )


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between two GPUs, as LLMServingSim's cluster file gives it."""

    latency_us: float
    bytes_per_us: float

    @classmethod
    def read(cls, path: Path) -> Link:
        """`link_latency` in ns, `link_bw` in GB/s."""
        cluster = _cluster(path)
        return cls(cluster.number("link_latency") / 1e3, cluster.number("link_bw", 0.001) * 1e3)

    def all_reduce(self, gpus: int, model: ModelConfig) -> Operator:
        """Twice a layer; a GPU sends and receives 2 (p - 1) / p of the message, after one latency.

        Two RTX PRO 6000 and vLLM 0.19's all-reduce took 20 us and 16 GB/s in NVIDIA's measurements
        (aiconfigurator-core 0.12, custom_allreduce_perf), as LLMServingSim's cluster file says too.

        Source: the ring of Thakur, Rabenseifner, Gropp, "Optimization of collective communication
        operations in MPICH", 2005, with the latency of a one-shot exchange.
        """
        return self._twice(2 * (gpus - 1) / gpus, model)

    def gather_and_scatter(self, gpus: int, model: ModelConfig) -> Operator:
        """Of all tokens, once a layer each: two halves of an all-reduce, with a latency each."""
        return self._twice((gpus - 1) / gpus, model)

    def _twice(self, share: float, model: ModelConfig) -> Operator:
        points = tuple(
            (size, self.latency_us + share * size / self.bytes_per_us) for size in MESSAGES_BYTES
        )
        return Operator(
            axis="bytes", calls=2, bytes_per_token=BYTES * model.hidden_size, points=points
        )


def _memory_gib(path: Path) -> float:
    node = _first(_cluster(path), "nodes")
    return _first(node, "instances").section("npu_mem").number("mem_size", 1)


def _cluster(path: Path) -> Section:
    try:
        return Section(json.loads(path.read_text(encoding="utf-8")), file=str(path), marks={})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


def _first(section: Section, key: str) -> Section:
    items = section.values.get(key)
    if not isinstance(items, list) or not items:
        raise section.error(key, f"must be a list, is {items!r}")
    return Section(items[0], file=section.file, marks={}, at=(*section.at, key))
