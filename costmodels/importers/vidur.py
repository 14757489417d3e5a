"""Tables of Vidur: FOLDER holds `mlp.csv` and `attention.csv` of one GPU and model.

`attention.csv` may also lie beside FOLDER, in `h<hidden>-q<heads>-kv<kv heads>-tp<N>`; a node's
`all_reduce.csv`, put into FOLDER, adds communication. Times are milliseconds, to 1 us. There is no
lm_head and no sampler in these tables.

Source: https://github.com/microsoft/vidur, `data/profiling` (MIT).
"""

from __future__ import annotations

from pathlib import Path

from costmodels.model_config import ModelConfig
from costmodels.operators_table import AttentionPoint, Operator
from costmodels.table import CostTable
from simulator.errors import ConfigError

from .csv_rows import Row, find_file, read_rows
from .imported import Source, attention_of, imported_table, points_of

PER_LAYER = (
    *("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj"),
    *("post_attention_layernorm", "mlp_up_proj", "mlp_act", "mlp_down_proj", "add"),
)
PER_STEP = ("emb",)
BYTES_PER_ELEMENT = 2


def import_vidur(folder: Path, model: ModelConfig, tensor_parallel: int) -> CostTable:
    """The table of one GPU and model; see `import_table`."""
    tp = tensor_parallel
    counted = _operators(find_file(folder, "mlp.csv"), model, tp)
    communication = "without all-reduce; " if tp > 1 else ""
    if tp > 1 and any(folder.glob("all_reduce.csv*")):
        communication = ""
        counted["all_reduce"] = _all_reduce(find_file(folder, "all_reduce.csv"), model, tp)
    source = Source(
        name="Vidur",
        device=folder.resolve().parent.name,
        dtype="float16",
        engine="kernels of early vLLM and Sarathi-Serve, FlashAttention",
        software={"vidur": "not recorded by the source"},
        url="https://github.com/microsoft/vidur, data/profiling",
        licence="MIT",
        note=f"{communication}without lm_head, sampler and host time; times are rounded to 1 us",
    )
    attention = _attention(_attention_file(folder, model, tp), model, tp)
    return imported_table(source, model, tp, counted=counted, attention=attention)


def _attention_file(folder: Path, model: ModelConfig, tp: int) -> Path:
    beside = f"h{model.hidden_size}-q{model.attention_heads}-kv{model.kv_heads}-tp{tp}"
    aside = folder.resolve().parent / beside
    return find_file(aside if aside.is_dir() else folder, "attention.csv")


def _fitting(
    rows: list[Row], model: ModelConfig, tp: int, sizes: tuple[tuple[str, int], ...]
) -> list[Row]:
    """The rows of this tensor-parallel degree, if the file is of a model with these sizes."""
    for column, size in sizes:
        if rows[0].whole(column) != size:
            raise ConfigError(
                f"{rows[0].file}: was measured for {column} {rows[0].whole(column)}, that of "
                f"{model.name} is {size}: give the model that was measured"
            )
    degree = "num_tensor_parallel_workers"
    kept = [row for row in rows if row.whole(degree) == tp]
    if not kept:
        known = sorted({row.whole(degree) for row in rows})
        raise ConfigError(f"{rows[0].file}: has no rows for {tp} GPUs (there: {known})")
    return kept


def _operators(path: Path, model: ModelConfig, tp: int) -> dict[str, Operator]:
    sizes = (
        ("n_embd", model.hidden_size),
        ("n_expanded_embd", model.intermediate_size),
        ("n_head", model.attention_heads),
        ("n_kv_head", model.kv_heads),
    )
    names = (*PER_LAYER, *PER_STEP)
    columns = [f"time_stats.{name}.median" for name in names]
    keys = ("num_tokens", "num_tensor_parallel_workers", *(key for key, _ in sizes))
    rows = _fitting(read_rows(path, (*columns, *keys)), model, tp, sizes)
    return {
        name: Operator(
            axis="tokens",
            per="step" if name in PER_STEP else "layer",
            points=points_of((row.whole("num_tokens"), 1000 * row.number(column)) for row in rows),
        )
        for name, column in zip(names, columns, strict=True)
    }


def _attention(path: Path, model: ModelConfig, tp: int) -> tuple[AttentionPoint, ...]:
    sizes = (
        *(("n_embd", model.hidden_size), ("n_q_head", model.attention_heads)),
        ("n_kv_head", model.kv_heads),
    )
    keys = ("is_prefill", "batch_size", "prefill_chunk_size", "kv_cache_size")
    times = ("time_stats.attn_prefill.median", "time_stats.attn_decode.median")
    needed = (*keys, *times, "num_tensor_parallel_workers", *(key for key, _ in sizes))
    points: list[AttentionPoint] = []
    for row in _fitting(read_rows(path, needed), model, tp, sizes):
        cached = row.whole("kv_cache_size")
        if row.is_(is_prefill="True"):
            time_us = 1000 * row.number(times[0])
            points.append((row.whole("prefill_chunk_size"), cached, 0, 0, time_us))
        else:
            points.append((0, 0, row.whole("batch_size"), cached, 1000 * row.number(times[1])))
    return attention_of(points)


def _all_reduce(path: Path, model: ModelConfig, tp: int) -> Operator:
    time = "time_stats.all_reduce.median"
    rows = read_rows(path, ("num_workers", "devices_per_node", "size", time))
    kept = [row for row in rows if row.is_(num_workers=tp, devices_per_node=tp)]
    if not kept:
        raise ConfigError(f"{path}: has no all-reduce among {tp} GPUs of one node")
    return Operator(
        axis="bytes",
        calls=2,
        bytes_per_token=BYTES_PER_ELEMENT * model.hidden_size,
        points=points_of((row.whole("size"), 1000 * row.number(time)) for row in kept),
    )
