"""What every importer shares: medians of repeated rows, and the table around the grids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from costmodels.model_config import ModelConfig
from costmodels.operators_table import AttentionPoint, Operator, OperatorGrids
from costmodels.table import CostTable
from costmodels.yaml_text import Value
from simulator.errors import ConfigError

from .held_out import held_out_errors

NOT_RECORDED = "not recorded by the source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Who measured what, as the published files say it."""

    name: str
    device: str
    dtype: str
    engine: str
    software: dict[str, str]
    url: str
    licence: str
    date: str = NOT_RECORDED
    note: str
    max_num_batched_tokens: int | None = None


def points_of(pairs: Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """(count, microseconds), ascending; the median where a count was measured more than once.

    >>> points_of([(2, 5.0), (1, 3.0), (2, 7.0)])
    ((1, 3.0), (2, 6.0))
    """
    times: dict[int, list[float]] = {}
    for count, time_us in pairs:
        times.setdefault(count, []).append(time_us)
    return tuple((count, _round(median(times[count]))) for count in sorted(times))


def attention_of(points: Iterable[AttentionPoint]) -> tuple[AttentionPoint, ...]:
    """Attention points, ascending; the median where a point was measured more than once."""
    times: dict[tuple[int, int, int, int], list[float]] = {}
    for chunk, past, seqs, context, time_us in points:
        times.setdefault((chunk, past, seqs, context), []).append(time_us)
    return tuple((*key, _round(median(times[key]))) for key in sorted(times))


def imported_table(
    source: Source,
    model: ModelConfig,
    tensor_parallel: int,
    *,
    counted: dict[str, Operator],
    attention: tuple[AttentionPoint, ...],
    skew: tuple[tuple[int, float], ...] = (),
    mixed_skew: tuple[tuple[int, float], ...] = (),
) -> CostTable:
    """The table of imported grids, with how far interpolation between them is off."""
    grids = OperatorGrids(counted, attention, skew=skew, mixed_skew=mixed_skew)
    samples = len(attention) + sum(len(operator.points) for operator in counted.values())
    tp = tensor_parallel
    provenance: dict[str, Value] = {
        "origin": f"measured: kernel times published with {source.name}",
        "device": source.device,
        "tensor_parallel": tp,
        "dtype": source.dtype,
        "model": model.name,
        "engine": source.engine,
        "software": dict(source.software),
        "date": source.date,
        "command": f"python -m costmodels.importers {source.name.lower()} FOLDER "
        f"--model {model.name} --tp {tp}",
        "source": source.url,
        "licence": source.licence,
        "samples": samples,
        "note": source.note,
    }
    return CostTable(
        kind="operators",
        name=f"{source.name.lower()}-{model.name}-tp{tp}",
        description=f"{model.name} on {tp} x {source.device}, kernels measured by {source.name}",
        parameters={"layers": model.layers},
        provenance=provenance,
        held_out=held_out_errors(grids),
        max_model_len=model.max_model_len,
        max_num_batched_tokens=source.max_num_batched_tokens,
        operators=grids,
    )


def heads_of(model: ModelConfig, tensor_parallel: int) -> tuple[int, int]:
    """(query heads, KV heads) of one GPU; ConfigError if they cannot be divided."""
    if model.attention_heads % tensor_parallel:
        raise ConfigError(
            f"{model.name} has {model.attention_heads} attention heads: "
            f"{tensor_parallel} GPUs do not divide them"
        )
    return model.attention_heads // tensor_parallel, max(model.kv_heads // tensor_parallel, 1)


def _round(time_us: float) -> float:
    return float(f"{time_us:.6g}")
