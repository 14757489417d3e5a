"""A mixture of experts on data-parallel replicas: the joint price of a step, and the run itself.

Every replica holds all of attention and an equal part of the experts. In every layer tokens are
gathered from all replicas before their experts and scattered back after them, so a step takes

    slowest replica (everything but the experts) + layers x (experts + gather + scatter)

with the experts' tokens those of all replicas: each padded to the captured batch size of the
largest, or as they are when the largest is beyond those and nobody runs a CUDA graph.
Source: vLLM 0.19, `vllm/v1/worker/dp_utils.py` and `all2all_backend` `allgather_reducescatter`.
"""

from __future__ import annotations

from dataclasses import replace

from costmodels import CostTable
from costmodels.counted import CountedTimes, padded_size
from costmodels.curves import BITS
from costmodels.importers.csv_rows import find_file, read_rows
from costmodels.importers.experts import COLUMNS, experts_operator
from simulator.data_parallel import DataParallelResult, JointPrice, Shapes, simulate_data_parallel
from simulator.plan import StepShape
from simulator.prefix_cache import PrefixCache
from simulator.schedulers.vllm import VllmScheduler

from .prices import Link, cost_model, usable_blocks
from .recorded import Recorded
from .sizes import model_of

NOTHING = StepShape((), 0, 0)


def joint_price(run: Recorded, table: CostTable, prefill_step_factor: float) -> JointPrice:
    """The price of a step of all replicas; the factor holds for what prompts add to kernels."""
    assert table.operators is not None, table.name
    counted = {**table.operators.counted}
    counted.pop("experts", None)
    alone = replace(table, operators=replace(table.operators, counted=counted))
    slowest = cost_model(run, alone, prefill_step_factor=prefill_step_factor)
    experts, link = _experts(run, int(str(table.parameters["layers"])))
    largest = max(run.graph_sizes, default=0)

    def together(counts: list[int]) -> int:
        most = max(counts)
        return len(counts) * padded_size(run.graph_sizes, most) if most <= largest else sum(counts)

    def price(shapes: Shapes) -> int:
        busy = [shape or NOTHING for shape in shapes]
        tokens = together([shape.prefill_tokens + shape.decode_seqs for shape in busy])
        shared = experts.at(tokens)
        if any(shape.chunks for shape in busy):
            decodes = together([shape.decode_seqs for shape in busy])
            added = max(shared - experts.at(max(decodes, 1)), 0)
            shared += round(added * (prefill_step_factor - 1))
        slowest_ns = max(slowest.step_ns(shape) for shape in shapes if shape is not None)
        return slowest_ns + (shared + link.at(tokens) >> BITS)

    return price


def _experts(run: Recorded, layers: int) -> tuple[CountedTimes, CountedTimes]:
    """(experts, gather and scatter) by the tokens of all replicas."""
    path = find_file(run.folder / "profile", f"tp{run.gpus}_moe.csv")
    experts = experts_operator(read_rows(path, COLUMNS), run.replicas)
    link = Link.read(run.folder / "llmservingsim_cluster_config.json")
    exchange = link.gather_and_scatter(run.replicas, model_of(run.folder, run.model))
    return (
        CountedTimes({"experts": experts}, layers, grows=True),
        CountedTimes({"exchange": exchange}, layers, grows=True),
    )


def served_by_replicas(
    run: Recorded, table: CostTable, prefill_step_factor: float
) -> DataParallelResult:
    """The run, simulated with its own settings."""
    schedulers = tuple(
        VllmScheduler(
            run.max_num_batched_tokens,
            run.max_num_seqs,
            scheduler_reserve_full_isl=run.reserve_full_isl,
        )
        for _ in range(run.replicas)
    )
    return simulate_data_parallel(
        run.trace,
        schedulers,
        joint_price(run, table, prefill_step_factor),
        PrefixCache(usable_blocks(run)[0], 16),
        async_scheduling=run.async_scheduling,
        needs_longest_context=bool(table.operators and table.operators.skew),
    )
