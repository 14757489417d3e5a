"""Tables of AIConfigurator as CSV: FOLDER is the one of a backend, such as `h100_sxm/vllm-0.24.0`.

It holds `gemm_perf`, `context_attention_perf` and `generation_attention_perf`, for several GPUs
also `custom_allreduce_perf`; `system.yaml` of the GPU lies in the folder above. Times are
milliseconds, message sizes bf16 elements. A GEMM that was not measured is interpolated in n and k.
Not measured, and marked so by their names or in the note: norms, rope, activation (launches and
traffic), and the history of prompt chunks, T(past + n) - T(past) and at least T(n).

Source: https://github.com/ai-dynamo/aiconfigurator, `systems/data` (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from costmodels.curves import ONE_NS, curve_through
from costmodels.model_config import ModelConfig
from costmodels.operators_table import AttentionPoint, Operator
from costmodels.section import Section
from costmodels.table import CostTable
from costmodels.yaml_text import read_yaml
from simulator.errors import ConfigError

from .csv_rows import Row, find_file, read_rows
from .imported import Source, attention_of, heads_of, imported_table, points_of

ELEMENTWISE_KERNELS = 5
LAUNCH_US = 2.2
BANDWIDTH_EFFICIENCY = 0.8
BYTES = 2
"""Per element of bf16. The three numbers above are assumptions, not measurements."""

Gemms = dict[int, dict[tuple[int, int], float]]


def import_aiconfigurator(folder: Path, model: ModelConfig, tensor_parallel: int) -> CostTable:
    """The table of one GPU and model; see `import_table`."""
    tp = tensor_parallel
    heads, kv_heads = heads_of(model, tp)
    rows = read_rows(
        find_file(folder, "gemm_perf.csv"), ("m", "n", "k", "gemm_dtype", "latency", "version")
    )
    gemms = _gemms(rows)
    queries, keys = heads * model.head_dim, kv_heads * model.head_dim
    hidden, inner = model.hidden_size, model.intermediate_size // tp
    counted = {
        "qkv": _gemm(gemms, queries + 2 * keys, hidden),
        "o": _gemm(gemms, hidden, queries),
        "gate_up": _gemm(gemms, 2 * inner, hidden),
        "down": _gemm(gemms, hidden, inner),
        "elementwise (estimated)": _elementwise(
            folder.resolve().parent / "system.yaml",
            BYTES * (8 * hidden + 2 * (queries + keys) + 4 * keys + 3 * inner),
            max(gemms),
        ),
        "lm_head": _gemm(gemms, model.vocab_size // tp, hidden, axis="sequences", per="step"),
    }
    if tp > 1:
        counted["all_reduce"] = _all_reduce(
            find_file(folder, "custom_allreduce_perf.csv"), tp, model
        )
    device, version = rows[0].values.get("device", ""), rows[0].values["version"]
    source = Source(
        name="AIConfigurator",
        device=device or folder.resolve().parent.name,
        dtype="bfloat16",
        engine=f"kernels of {folder.resolve().name}, in CUDA graphs",
        software={"vllm": version},
        url="https://github.com/ai-dynamo/aiconfigurator, systems/data",
        licence="Apache-2.0",
        note="norms, rope and activation are estimated from bandwidth, the history of prompt "
        "chunks from causal prefills; mixed steps, sampler and host time are not in the table",
    )
    attention = _attention(folder, model, heads, kv_heads)
    return imported_table(source, model, tp, counted=counted, attention=attention)


def _gemms(rows: list[Row]) -> Gemms:
    gemms: Gemms = {}
    for row in rows:
        if row.is_(gemm_dtype="bfloat16"):
            size = row.whole("n"), row.whole("k")
            gemms.setdefault(row.whole("m"), {})[size] = 1000 * row.number("latency")
    if not gemms:
        raise ConfigError(f"{rows[0].file}: has no bfloat16 rows")
    return gemms


def _gemm(gemms: Gemms, n: int, k: int, *, axis: str = "tokens", per: str = "layer") -> Operator:
    """C[m, n] = A[m, k] B[k, n] over m, for those m that have the sizes around n and k."""
    sizes = [size for times in gemms.values() for size in times]
    columns, depths = ({size[i] for size in sizes} for i in (0, 1))
    (n_low, n_high), (k_low, k_high) = _around(columns, n), _around(depths, k)
    points = []
    for m, times in sorted(gemms.items()):
        corners = [times.get((a, b)) for a in (n_low, n_high) for b in (k_low, k_high)]
        known = [corner for corner in corners if corner is not None]
        if len(known) == 4:
            low = _line(known[0], known[1], k_low, k_high, k)
            high = _line(known[2], known[3], k_low, k_high, k)
            points.append((m, _line(low, high, n_low, n_high, n)))
    if not points:
        raise ConfigError(f"no GEMM near n {n}, k {k} was measured: the model is too large")
    return Operator(axis=axis, per=per, points=points_of(points))


def _around(values: Iterable[int], wanted: int) -> tuple[int, int]:
    """The measured sizes around one, the same twice if it was measured, the last two beyond."""
    ordered = sorted(values)
    if wanted in ordered:
        return wanted, wanted
    for low, high in pairwise(ordered):
        if wanted < high:
            return low, high
    return ordered[-2], ordered[-1]


def _line(at_low: float, at_high: float, low: int, high: int, wanted: int) -> float:
    if low == high:
        return at_low
    return at_low + (at_high - at_low) * (wanted - low) / (high - low)


def _elementwise(system: Path, bytes_per_token: int, tokens: int) -> Operator:
    document, marks = read_yaml(system)
    gpu = Section(document, file=str(system), marks=marks).section("gpu")
    us_per_token = bytes_per_token / (gpu.number("mem_bw", 1) * BANDWIDTH_EFFICIENCY) * 1e6
    launches_us = ELEMENTWISE_KERNELS * LAUNCH_US
    points = points_of((count, launches_us + count * us_per_token) for count in (1, tokens))
    return Operator(axis="tokens", points=points)


def _all_reduce(path: Path, tp: int, model: ModelConfig) -> Operator:
    rows = read_rows(path, ("num_gpus", "message_size", "latency", "backend"))
    kept = [row for row in rows if row.is_(num_gpus=tp, backend="vllm_graph")]
    if not kept:
        raise ConfigError(f"{path}: has no all-reduce among {tp} GPUs")
    return Operator(
        axis="bytes",
        calls=2,
        bytes_per_token=BYTES * model.hidden_size,
        points=points_of(
            (BYTES * row.whole("message_size"), 1000 * row.number("latency")) for row in kept
        ),
    )


def _attention(
    folder: Path, model: ModelConfig, heads: int, kv_heads: int
) -> tuple[AttentionPoint, ...]:
    prefill = _rows(find_file(folder, "context_attention_perf.csv"), model, heads, kv_heads)
    decode = _rows(find_file(folder, "generation_attention_perf.csv"), model, heads, kv_heads)
    whole = points_of(
        (row.whole("isl"), 1000 * row.number("latency")) for row in prefill if row.is_(batch_size=1)
    )
    points = _with_history(whole)
    for row in decode:
        # The KV cache then holds step + 1 tokens: `step` from before and the one just written.
        seqs, context = row.whole("batch_size"), row.whole("step")
        points.append((0, 0, seqs, context, 1000 * row.number("latency")))
    return attention_of(points)


def _rows(path: Path, model: ModelConfig, heads: int, kv_heads: int) -> list[Row]:
    columns = ("batch_size", "isl", "step", "num_heads", "num_key_value_heads", "latency")
    rows = read_rows(path, (*columns, "head_dim"))
    wanted = {"num_heads": heads, "num_key_value_heads": kv_heads, "head_dim": model.head_dim}
    kept = [row for row in rows if row.is_(**wanted)]
    if not kept:
        pairs = sorted({(row.whole("num_heads"), row.whole("num_key_value_heads")) for row in rows})
        raise ConfigError(
            f"{path}: has no attention of {heads} query and {kv_heads} KV heads of "
            f"{model.head_dim} (measured pairs: {', '.join(f'{q}/{kv}' for q, kv in pairs)})"
        )
    return kept


def _with_history(whole: tuple[tuple[int, float], ...]) -> list[AttentionPoint]:
    """Chunks after a past, from the times T of whole prompts."""
    curve = curve_through(whole, grows=True)
    longest = whole[-1][0]

    def after(past: int, new: int, time_us: float) -> float:
        if not past:
            return time_us
        return max((curve.at(past + new) - curve.at(past)) / ONE_NS / 1000, time_us)

    return [
        (new, past, 0, 0, after(past, new, time_us))
        for new, time_us in whole
        for past in (0, *(count for count, _ in whole))
        if past + new <= longest or not past
    ]
