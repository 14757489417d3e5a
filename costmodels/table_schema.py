"""What a cost table must contain: the keys of every part, and the checks that refuse the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping

from simulator.errors import TableFormatError, nearest

from .section import Section
from .yaml_text import Value

FORMAT_VERSION = 1
FORMAT_KEY = "runway_cost_table"

PARAMETERS: Mapping[str, Mapping[str, type]] = {
    "constant": {"prefill_ms": float, "decode_ms": float},
    "lesson": {},
    "linear": {
        "step_ms": float,
        "prefill_ms_per_token": float,
        "attention_ms_per_token_pair": float,
        "prefill_step_ms": float,
        "decode_ms_per_sequence": float,
        "decode_ms_per_context_token": float,
        "longest_context_ms_per_token": float,
        "longest_context_full_at_sequences": float,
    },
    "roofline": {
        "gpu": str,
        "model": str,
        "tensor_parallel": int,
        "dtype": str,
        "kv_dtype": str,
        "flops_efficiency": float,
        "bandwidth_efficiency": float,
        "step_overhead_ms": float,
    },
    "steps": {
        "step_ms": float,
        "compute_ms_per_token": float,
        "knee_tokens": float,
        "attention_tokens_per_pair": float,
        "prefill_step_ms": float,
        "continued_prompt_ms": float,
        "captured_tokens": int,
        "uncaptured_step_ms": float,
        "uncaptured_floor_ms": float,
        "decode_ms_per_sequence": float,
        "decode_batch_sizes": list,
        "decode_batch_ms": tuple,
        "decode_ms_per_context_token": float,
        "longest_context_ms_per_token": float,
        "longest_context_full_at_sequences": int,
        "longest_context_sequences_per_wave": float,
        "compute_tile_tokens": int,
        "boost_saving_ms": float,
        "boost_recovery_ms": float,
        "decode_attention": str,
    },
    "operators": {
        "layers": int,
        "decode_batch_sizes": list,
        "mixed_batch_sizes": list,
        "host_us": float,
        "host_combine": str,
        "prefill_step_factor": float,
        "split_kv_below": int,
        "decode_attention": str,
        "extrapolation": str,
    },
}
"""The parameters of every kind of cost model, and the type of each; `list` of ascending whole
numbers, `tuple` of numbers that do not fall."""

REQUIRED: Mapping[str, tuple[str, ...]] = {
    "constant": ("prefill_ms", "decode_ms"),
    "roofline": ("gpu", "model"),
    "operators": ("layers",),
    "steps": ("step_ms",),
}

MEASURED_KEYS = (
    *("device", "dtype", "model", "engine", "software", "date", "command", "source", "licence"),
    "samples",
)
OPTIONAL_KEYS = (
    *(
        "tensor_parallel",
        "kv_cache_dtype",
        "attention_backend",
        "all_reduce",
        "threads",
        "clock",
        "shapes",
    ),
    *("dropped", "outliers", "smoothing", "note"),
)
HELD_OUT_KEYS = ("split", "n", "median", "p90")
SECTIONS = (
    FORMAT_KEY,
    *("kind", "name", "description", "parameters", "provenance", "held_out"),
    *("extrapolation", "fitted_range", "kv", "max_model_len", "max_num_batched_tokens"),
    "operators",
)

WHY_PROVENANCE = (
    "a measured table without its origin and its error is not usable: add them, "
    "or start origin with 'hand-written' if nobody measured this"
)


def check_kind(top: Section) -> str:
    """The kind of a table whose top-level keys are in order."""
    top.allow(SECTIONS, (FORMAT_KEY, "kind", "name", "description", "parameters", "provenance"))
    if top.whole(FORMAT_KEY) != FORMAT_VERSION:
        raise top.error(FORMAT_KEY, f"must be {FORMAT_VERSION}, the version that is read here")
    kind = top.text("kind")
    if kind not in PARAMETERS:
        known = ", ".join(PARAMETERS)
        raise top.error("kind", f"{kind!r} is unknown{nearest(kind, PARAMETERS)} (known: {known})")
    if (kind == "operators") != ("operators" in top):
        raise top.error("operators", "is the section of measured grids of kind 'operators' only")
    return kind


def check_parameters(section: Section, kind: str) -> dict[str, Value]:
    """The parameters of a kind, each of its type, finite and not negative."""
    known = PARAMETERS[kind]
    for key in section.values:
        with_unit = [name for name in known if name.startswith(key) and "_ms" in name]
        if key not in known and with_unit and "_ms" not in key:
            raise section.error(key, f"has no unit in its name, did you mean {with_unit[0]}?")
    section.allow(known, REQUIRED.get(kind, ()))
    return {key: _read(section, key, known[key]) for key in section.values}


def check_provenance(section: Section) -> bool:
    """True if the table says it is measured."""
    section.allow((*("origin",), *MEASURED_KEYS, *OPTIONAL_KEYS), ("origin",), WHY_PROVENANCE)
    origin = section.text("origin")
    if not origin.startswith(("measured", "hand-written")):
        raise section.error(
            "origin", f"must start with 'measured' or 'hand-written', is {origin!r}"
        )
    if origin.startswith("hand-written"):
        return False
    section.allow(section.values, MEASURED_KEYS, WHY_PROVENANCE)
    for key in MEASURED_KEYS:
        if key not in ("software", "samples"):
            section.text(key)
    section.whole("samples")
    software = section.section("software")
    if not software.values:
        raise section.error("software", "must name at least one package and its version")
    for package in software.values:
        software.text(package)
    return True


def check_held_out(top: Section) -> None:
    """The error on samples that the fit never saw."""
    if "held_out" not in top:
        raise TableFormatError(f"{top.file}: held_out missing: {WHY_PROVENANCE}")
    section = top.section("held_out")
    section.allow((*HELD_OUT_KEYS, "mean"), HELD_OUT_KEYS, WHY_PROVENANCE)
    section.text("split")
    section.whole("n")
    for key in ("median", "p90"):
        section.number(key)


def _read(section: Section, key: str, kind: type) -> Value:
    if kind is str:
        return section.text(key)
    if kind is list:
        return _sizes(section, key)
    if kind is tuple:
        return _prices(section, key)
    return section.whole(key) if kind is int else section.number(key)


def _sizes(section: Section, key: str) -> Value:
    values = section.values[key]
    sizes = [v for v in values if type(v) is int and v > 0] if isinstance(values, list) else []
    if not sizes or sizes != values or sizes != sorted({*sizes}):
        raise section.error(key, f"must be a list of ascending whole numbers, is {values!r}")
    return list(sizes)


def _prices(section: Section, key: str) -> Value:
    values = section.values[key]
    listed = values if isinstance(values, list) else []
    prices = [float(v) for v in listed if isinstance(v, int | float) and 0 <= v < math.inf]
    if not prices or len(prices) != len(listed) or prices != sorted(prices):
        raise section.error(key, f"must be a list of numbers that do not fall, is {values!r}")
    return list(prices)
