"""Tables of LLMServingSim: FOLDER holds `meta.yaml` and `tp<N>/{dense,per_sequence,attention}.csv`.

Or `tp<N>_dense.csv` and so on. Times are microseconds; one layer was timed, on one GPU, so a table
for several GPUs has no communication in it. Attention was measured mixed: decodes beside chunks
without a past are kept. `moe.csv`: see `experts.py`. `skew.csv` is read if meta.yaml says that the
profile of unequal contexts was on: alpha, the share of the way from the mean to the longest
context, as median by decodes, of decodes alone and of those beside chunks.

Source: https://github.com/casys-kaist/LLMServingSim, `profiler/perf` (MIT).
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from costmodels.model_config import ModelConfig
from costmodels.operators_table import AttentionPoint, Operator
from costmodels.section import Section
from costmodels.table import CostTable
from costmodels.yaml_text import read_yaml
from simulator.errors import ConfigError

from .csv_rows import Row, find_file, read_rows
from .experts import COLUMNS, experts_operator
from .imported import Source, attention_of, imported_table, points_of

CALLS_PER_LAYER = {
    **{"qkv_proj": 1, "o_proj": 1, "gate_up_proj": 1, "down_proj": 1, "act_fn": 1},
    **{"rotary_emb": 1, "qk_norm": 1, "layernorm": 2},
}
GEMMS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
"""Their grid, every 16 tokens, holds every edge of a tile."""
ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
SKEW = ("regime", "n", "alpha")
PER_STEP = ("embedding", "final_layernorm", "lm_head", "sampler")


def import_llmservingsim(folder: Path, model: ModelConfig, tensor_parallel: int) -> CostTable:
    """The table of one GPU and model; see `import_table`."""
    document, marks = read_yaml(folder / "meta.yaml")
    meta = Section(document, file=str(folder / "meta.yaml"), marks=marks)
    engine = meta.section("engine_effective")
    tables = _Tables(folder, tensor_parallel)
    dense = tables.rows("dense", ("layer", "tokens", "time_us"))
    heads = tables.rows("per_sequence", ("layer", "sequences", "time_us"))
    communication = "; without all-reduce" if tensor_parallel > 1 else ""
    version = meta.text("vllm_version")
    source = Source(
        name="LLMServingSim",
        device=meta.text("gpu"),
        dtype=meta.text("variant"),
        engine=f"vLLM {version}, one layer at a time, eager",
        software={"vllm": version, "cuda": meta.text("cuda_version")},
        date=meta.text("profiled_at"),
        url="https://github.com/casys-kaist/LLMServingSim, profiler/perf",
        licence="MIT",
        note=f"host time is not in the table{communication}; mixed attention is kept beside chunks "
        "without a past, the rest left out",
        max_num_batched_tokens=engine.whole("max_num_batched_tokens"),
    )
    counted = {**_operators(dense, "tokens"), **_operators(heads, "sequences")}
    has_experts = tables.have("moe")
    _check_sizes(meta, engine.section("hf_overrides"), model, has_experts=has_experts)
    if has_experts:
        counted["experts"] = experts_operator(tables.rows("moe", COLUMNS))
    attention = _attention(tables.rows("attention", (*ATTENTION, "time_us")))
    profiles_skew = "skew_profile" in meta and meta.section("skew_profile").values.get("enabled")
    unequal = tables.rows("skew", SKEW) if profiles_skew else []
    return imported_table(
        source,
        model,
        tensor_parallel,
        counted=counted,
        attention=attention,
        skew=_skew(unequal, "pure"),
        mixed_skew=_skew(unequal, "mixed"),
    )


class _Tables:
    """Where the tables of one tensor-parallel degree lie."""

    def __init__(self, folder: Path, tensor_parallel: int) -> None:
        self._inner = folder / f"tp{tensor_parallel}"
        self._prefix = "" if self._inner.is_dir() else f"tp{tensor_parallel}_"
        self._folder = folder if self._prefix else self._inner

    def have(self, name: str) -> bool:
        """Is there such a table?"""
        file = f"{self._prefix}{name}.csv"
        return any((self._folder / found).is_file() for found in (file, f"{file}.gz"))

    def rows(self, name: str, columns: tuple[str, ...]) -> list[Row]:
        """Its rows; ConfigError if there is none."""
        return read_rows(find_file(self._folder, f"{self._prefix}{name}.csv"), columns)


def _check_sizes(
    meta: Section, profiled: Section, model: ModelConfig, *, has_experts: bool
) -> None:
    """The sizes in meta.yaml are those of one GPU at the largest tensor-parallel degree.

    That of the MLP is not looked at where experts take its place.
    """
    degrees = meta.values.get("tp_degrees")
    if not isinstance(degrees, list) or not all(isinstance(tp, int) for tp in degrees):
        raise meta.error("tp_degrees", f"must be a list of whole numbers, is {degrees!r}")
    largest = max(int(str(tp)) for tp in degrees)
    for key, size in (
        *([] if has_experts else [("intermediate_size", model.intermediate_size)]),
        ("num_attention_heads", model.attention_heads),
        ("vocab_size", model.vocab_size),
    ):
        if profiled.whole(key) * largest != size:
            raise ConfigError(
                f"{meta.file}: was measured for {meta.text('model')}, whose {key} is "
                f"{profiled.whole(key) * largest}; that of {model.name} is {size}: give the "
                "model that was measured"
            )


def _operators(rows: list[Row], axis: str) -> dict[str, Operator]:
    times: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        layer = row.values["layer"]
        if layer not in CALLS_PER_LAYER and layer not in PER_STEP:
            raise row.error("layer", f"{layer!r} is not understood: how often does a step run it?")
        times.setdefault(layer, []).append((row.whole(axis), row.number("time_us")))
    return {
        layer: Operator(
            axis=axis,
            per="step" if layer in PER_STEP else "layer",
            calls=CALLS_PER_LAYER.get(layer, 1),
            between="next" if layer in GEMMS else "line",
            points=points_of(pairs),
        )
        for layer, pairs in times.items()
    }


def _skew(rows: list[Row], regime: str) -> tuple[tuple[int, float], ...]:
    """Noise around zero, and times of nearly equal contexts, can lie outside 0 to 1.

    Where the longest took no longer than the mean, the cell is empty.
    """
    alphas: dict[int, list[float]] = {}
    for row in rows:
        if row.is_(regime=regime) and row.values["alpha"]:
            alphas.setdefault(row.whole("n"), []).append(row.number("alpha", signed=True))
    return tuple((n, min(max(median(alphas[n]), 0.0), 1.0)) for n in sorted(alphas))


def _attention(rows: list[Row]) -> tuple[AttentionPoint, ...]:
    points: list[AttentionPoint] = []
    for row in rows:
        chunk, past, seqs, context = (row.whole(column) for column in ATTENTION)
        points.append((chunk, past, seqs, context, row.number("time_us")))
    return attention_of(point for point in points if not (point[0] and point[2] and point[1]))
