"""One recorded vLLM run: its settings, its requests as a trace, and the times vLLM measured."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodels.section import Section
from costmodels.yaml_text import Value
from simulator.errors import ConfigError
from simulator.trace import Trace
from simulator.units import NS_PER_S

from .prefixes import block_hashes

Floats = NDArray[np.float64]

QUANTITIES = ("ttft_ms", "tpot_ms", "e2el_ms")
COLUMNS = (
    *("request_index", "input_tokens", "output_tokens", "planned_arrival_ns"),
    *("shared_prefix_blocks16", "queued_s", "first_token_s", "last_token_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A run folder, read.

    times: quantity -> milliseconds per request, by vLLM's engine clock: from the instant the engine
    took the request in (it does so between steps). peer: the same as LLMServingSim's own simulation
    says, empty if the folder lacks it. first_token_s: on the engine's clock.
    """

    name: str
    folder: Path
    model: str
    gpus: int
    replicas: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int | None
    async_scheduling: bool
    reserve_full_isl: bool
    graph_sizes: tuple[int, ...]
    kv_blocks: int | None
    gpu_memory_utilization: float
    trace: Trace
    first_token_s: Floats
    makespan_s: float
    times: dict[str, Floats]
    peer: dict[str, Floats]
    prefix_rule: str


def read_run(folder: Path) -> Recorded:
    """Everything of one run's folder but its kernel times.

    Raises:
        ConfigError: a file or a column is missing. TableFormatError: a setting is not understood.
    """
    meta = _json(folder / "vllm_meta.json")
    columns = _columns(folder / "requests.csv")
    engine = meta.section("engine_kwargs")
    scheduler = _inner(meta, "resolved_config", "scheduler_config")
    seats = engine.whole("max_num_seqs")
    trace, prefix_rule = _trace(folder, columns)
    queued, first, last = (columns[name] for name in COLUMNS[-3:])
    kv = meta.section("kv_cache").values if "kv_cache" in meta else {}
    blocks, share = kv.get("num_gpu_blocks"), kv.get("gpu_memory_utilization") or 0.9
    return Recorded(
        name=folder.name,
        folder=folder,
        model=meta.text("model"),
        gpus=engine.whole("tensor_parallel_size"),
        replicas=engine.whole("data_parallel_size") if "data_parallel_size" in engine else 1,
        max_num_seqs=seats,
        max_num_batched_tokens=engine.whole("max_num_batched_tokens"),
        max_model_len=engine.whole("max_model_len") if "max_model_len" in engine else None,
        async_scheduling=scheduler.get("async_scheduling") is not False,
        reserve_full_isl=scheduler.get("scheduler_reserve_full_isl") is not False,
        graph_sizes=_graph_sizes(meta, seats),
        kv_blocks=blocks if isinstance(blocks, int) else None,
        gpu_memory_utilization=float(str(share)),
        trace=trace,
        first_token_s=first,
        makespan_s=float(last.max() - queued.min()),
        times=_times(columns["output_tokens"], queued, first, last),
        peer=_peer(folder / "llmservingsim_sim.csv", len(trace)),
        prefix_rule=prefix_rule,
    )


def _graph_sizes(meta: Section, seats: int) -> tuple[int, ...]:
    """Captured batch sizes: as recorded, else vLLM's default for this many seats.

    Source: vLLM 0.19, `vllm/config/vllm.py`, `_set_cudagraph_sizes`: 1, 2, 4, steps of 8 below 256,
    then of 16, up to twice the seats and at most 512.
    """
    recorded = _inner(meta, "resolved_config", "compilation_config")
    sizes = recorded.get("cudagraph_capture_sizes")
    if isinstance(sizes, list):
        return tuple(sorted(int(str(size)) for size in sizes))
    largest = min(2 * seats, 512)
    every = (1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16))
    return tuple(size for size in every if size <= largest)


def _trace(folder: Path, columns: dict[str, Floats]) -> tuple[Trace, str]:
    planned = columns["planned_arrival_ns"].astype(np.int64)
    prompts, outputs, shared = (
        columns[name].astype(np.int64)
        for name in ("input_tokens", "output_tokens", "shared_prefix_blocks16")
    )
    hashes, rule = block_hashes(folder, prompts, outputs, shared)
    trace = Trace(
        arrival_ns=planned - planned[0],
        prompt_tokens=prompts,
        output_tokens=outputs,
        block_hashes=hashes,
        hash_block_tokens=16,
    )
    return trace, rule


def _times(outputs: Floats, queued: Floats, first: Floats, last: Floats) -> dict[str, Floats]:
    """TTFT, TPOT and E2E in ms; arguments in tokens and s, shape (n,)."""
    gaps = np.maximum(outputs - 1, 1)
    values = ((first - queued) * 1e3, (last - first) * 1e3 / gaps, (last - queued) * 1e3)
    return dict(zip(QUANTITIES, values, strict=True))


def _peer(path: Path, rows: int) -> dict[str, Floats]:
    if not path.is_file():
        return {}
    columns = _columns(path, ("request_id", "output", "arrival", "end_time", "TTFT"))
    order = np.argsort(columns["request_id"])
    if len(order) != rows:
        return {}
    arrival, end, ttft = (
        columns[name][order] / NS_PER_S for name in ("arrival", "end_time", "TTFT")
    )
    return _times(columns["output"][order], arrival, arrival + ttft, end)


def _columns(path: Path, names: tuple[str, ...] = COLUMNS) -> dict[str, Floats]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    missing = [name for name in names if not rows or name not in rows[0]]
    if missing:
        raise ConfigError(f"{path}: column {', '.join(missing)} missing, or no rows")
    try:
        return {name: np.array([float(row[name]) for row in rows]) for name in names}
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{path}: {error}: every cell of {', '.join(names)} is a number"
        ) from None


def _json(path: Path) -> Section:
    try:
        document: Value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return Section(document, file=str(path), marks={})


def _inner(section: Section, *keys: str) -> dict[str, Value]:
    """A nested mapping; empty if any of the keys is absent."""
    for key in keys:
        if key not in section:
            return {}
        section = section.section(key)
    return dict(section.values)
