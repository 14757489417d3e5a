"""AIPerf's exports, and GenAI-Perf's summaries, which have the same shape.

Source: AIPerf, "Working with Profile Export Files" and "Metrics Reference". `inter_token_latency`
is an average per request, (request latency - TTFT) / (output tokens - 1): our TPOT. The gaps
between streamed responses are `inter_chunk_latency`: our pooled ITL as long as a response carries
one token.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import ConfigError
from simulator.units import NS_PER_S

from .log import Floats, Log, completed, pooled

Record = Mapping[str, Any]
"""Parsed JSON. Any: JSON values."""

RECORDS = "profile_export.jsonl"
SUMMARY = "profile_export_aiperf.json"
_LATENCIES = {
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "request_latency": "e2el_ms",
}
_TOKENS = {
    "input_sequence_length": "prompt_tokens",
    "output_sequence_length": "output_tokens",
}
_RATES = {
    "request_throughput": "request_throughput",
    "output_token_throughput": "output_throughput",
    "total_token_throughput": "total_token_throughput",
    "goodput": "request_goodput",
    "request_goodput": "request_goodput",
    "benchmark_duration": "duration_s",
}
_STATISTICS = {"avg": "mean", "p50": "p50", "p90": "p90", "p99": "p99", "count": "n"}
_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
_ITL_NOTE = (
    "its inter token latency is an average per request and is compared as TPOT; it says nothing "
    "of single gaps"
)


def is_summary(content: Any) -> bool:  # Any: parsed JSON
    """profile_export_aiperf.json or profile_export_genai_perf.json."""
    held = _metrics(content)
    return any(isinstance(held.get(name), dict) and "avg" in held[name] for name in _LATENCIES)


def read_summary(path: Path, content: Any) -> Log:  # Any: parsed JSON
    """Statistics and rates; single requests are in another file."""
    measured = {
        name: (str(held.get("unit", "")), held)
        for name, held in _metrics(content).items()
        if isinstance(held, dict)
    }
    return _summary(path, measured)


def _metrics(content: Any) -> Record:  # Any: parsed JSON
    """Early versions kept the metrics one level down, in `records`."""
    if not isinstance(content, dict):
        return {}
    inner = content.get("records")
    return inner if isinstance(inner, dict) else content


def is_summary_csv(text: str) -> bool:
    """The CSV summaries start with the names of the statistics."""
    first = text.lstrip().partition("\n")[0].strip().lower()
    return first.startswith("metric,") and "avg" in first


def read_summary_csv(path: Path, text: str) -> Log:
    """Blocks of lines with a heading each: statistics first, then single values."""
    measured: dict[str, tuple[str, dict[str, float]]] = {}
    names: list[str] = []
    for row in csv.reader(io.StringIO(text)):
        if not row or len(row) < 2:
            continue
        if row[0] == "Metric":
            names = ["avg" if name == "Value" else name for name in row[1:]]
            continue
        label = re.fullmatch(r"(.+?)(?: \(([^)]*)\))?", row[0].strip())
        cells = [(name, _number(cell)) for name, cell in zip(names, row[1:], strict=False)]
        held = {name: value for name, value in cells if value is not None}
        if label and held:
            measured[label[1].lower().replace(" ", "_")] = (label[2] or "", held)
    if not measured.keys() & _LATENCIES.keys():
        raise ConfigError(f"{path}: a summary without any latency: give the export of one run")
    return _summary(path, measured)


def are_records(content: Any) -> bool:  # Any: parsed JSON
    """Lines of profile_export.jsonl."""
    return isinstance(content, list) and len(content) > 0 and all(map(_is_record, content))


def read_records(path: Path, content: Any) -> Log:  # Any: parsed JSON
    """Single requests in the order they were sent; warm-up left out."""
    records = [r for r in content if r["metadata"].get("benchmark_phase") != "warmup"]
    records.sort(key=lambda record: record["metadata"]["request_start_ns"])
    if not records:
        raise ConfigError(f"{path}: only warm-up requests in it")
    names = {**_LATENCIES, **_TOKENS}
    columns = {ours: _column(records, theirs) for theirs, ours in names.items()}
    failed = np.array([bool(record.get("error")) for record in records])
    for name in _LATENCIES.values():
        columns[name] = np.where(failed, np.nan, columns[name])
    start = np.array([r["metadata"]["request_start_ns"] for r in records], np.float64)
    columns["arrival_s"] = (start - start.min()) / NS_PER_S
    known = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    chunks = [_chunks(record) for record in records]
    lost = int(failed.sum())
    return Log(
        name=path.name,
        kind="AIPerf",
        is_measured=True,
        requests=completed(known),
        ids=tuple(str(record["metadata"].get("conversation_id")) for record in records),
        gaps=pooled(np.concatenate([np.zeros(0), *chunks])),
        notes=(_ITL_NOTE, *([f"{lost:,} requests failed and are in no latency"] if lost else [])),
    )


def read_folder(folder: Path) -> Log:
    """An artifact folder: the requests, and the rates of its summary."""
    text = (folder / RECORDS).read_text(encoding="utf-8")
    try:
        content = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise ConfigError(f"{folder / RECORDS}: not JSON lines ({error})") from None
    if not are_records(content):
        raise ConfigError(f"{folder / RECORDS}: no records of AIPerf in it")
    log = read_records(folder / RECORDS, content)
    if not (folder / SUMMARY).is_file():
        return replace(log, name=folder.resolve().name)
    stated = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    summary = read_summary(folder / SUMMARY, stated)
    return replace(log, name=folder.resolve().name, rates=summary.rates, stated=summary.stated)


def _is_record(record: Any) -> bool:  # Any: parsed JSON
    return (
        isinstance(record, dict)
        and isinstance(record.get("metadata"), dict)
        and "request_start_ns" in record["metadata"]
    )


def _summary(path: Path, measured: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Log:
    """Any: parsed JSON."""
    stated: dict[str, dict[str, float]] = {}
    rates: dict[str, float] = {}
    for name, (unit, held) in measured.items():
        if name in _LATENCIES:
            scale = _MS.get(unit.lower(), 1.0)
            stated[_LATENCIES[name]] = {
                ours: float(held[theirs]) * (1.0 if ours == "n" else scale)
                for theirs, ours in _STATISTICS.items()
                if held.get(theirs) is not None
            }
        elif name in _RATES and held.get("avg") is not None:
            rates[_RATES[name]] = float(held["avg"])
    kind = "GenAI-Perf" if "genai" in path.name.lower() else "AIPerf"
    records = RECORDS if kind == "AIPerf" else "profile_export.json"
    notes = (_ITL_NOTE, f"no single requests in it: they are in {records}")
    return Log(path.name, kind, is_measured=True, stated=stated, rates=rates, notes=notes)


def _column(records: Sequence[Record], name: str) -> Floats:
    def value(record: Record) -> float:
        held = (record.get("metrics") or {}).get(name)
        if held is None or held.get("value") is None:
            return float("nan")
        scale = _MS.get(str(held.get("unit", "")).lower(), 1.0) if name in _LATENCIES else 1.0
        return float(held["value"]) * scale

    return np.array([value(record) for record in records], np.float64)


def _chunks(record: Record) -> Floats:
    held = (record.get("metrics") or {}).get("inter_chunk_latency")
    if record.get("error") or not held or not isinstance(held.get("value"), list):
        return np.zeros(0)
    return np.array(held["value"], np.float64) * _MS.get(str(held.get("unit", "")).lower(), 1.0)


def _number(cell: str) -> float | None:
    """
    >>> _number("1,146.31"), _number("N/A")
    (1146.31, None)
    """
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None
