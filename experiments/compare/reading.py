"""Whose file is this? The one place that knows all formats of `runway compare`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError

from .log import Log

Content = Any
"""Parsed JSON. Any: JSON values."""

READABLE = (
    "a folder of `runway simulate --out`; JSON of `vllm bench serve --save-result "
    "[--save-detailed]`; profile_export.jsonl, profile_export_aiperf.json or .csv of AIPerf; "
    "profile_export.json, profile_export_genai_perf.json or .csv of GenAI-Perf; benchmarks.json of "
    "GuideLLM; or a CSV, JSON lines or Parquet file with a column ttft_ms or e2el_ms"
)


def read_log(path: Path) -> Log:
    """Read a run's folder or an engine's log of any known format.

    Raises:
        ConfigError: there is nothing, its format is unknown, or it is damaged.
    """
    from . import aiperf, run_folder, tables

    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder")
    if path.is_dir():
        if (path / "summary.json").is_file():
            return run_folder.read(path)
        if (path / aiperf.RECORDS).is_file():
            return aiperf.read_folder(path)
        raise _unknown(path, "a folder without summary.json or profile_export.jsonl")
    if path.name.endswith(".parquet"):
        return tables.read_parquet(path)
    text = _text(path)
    if not text.strip():
        raise _unknown(path, "an empty file")
    if text.lstrip()[0] not in "{[":
        return _read_csv(path, text)
    return _read_json(path, text)


def _read_csv(path: Path, text: str) -> Log:
    from . import aiperf, tables

    if aiperf.is_summary_csv(text):
        return aiperf.read_summary_csv(path, text)
    log = tables.read_csv(path, text)
    if log is None:
        raise _unknown(path, "a table without a column ttft_ms or e2el_ms")
    return log


def _read_json(path: Path, text: str) -> Log:
    from . import aiperf, genai_perf, guidellm, tables, vllm_bench

    content = _json(path, text)
    readers: tuple[tuple[Callable[[Content], bool], Callable[[Path, Content], Log]], ...] = (
        (vllm_bench.recognises, vllm_bench.read),
        (genai_perf.recognises, genai_perf.read),
        (guidellm.recognises, guidellm.read),
        (aiperf.is_summary, aiperf.read_summary),
        (aiperf.are_records, aiperf.read_records),
        (tables.are_rows, tables.read_rows),
    )
    for recognises, read in readers:
        if recognises(content):
            try:
                return read(path, content)
            except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
                if isinstance(error, ConfigError):
                    raise
                raise ConfigError(
                    f"{path}: looks like one of the known formats, but is damaged "
                    f"({type(error).__name__}: {error}): write it again"
                ) from error
    raise _unknown(path, "JSON of another shape")


def _json(path: Path, text: str) -> Content:
    """One JSON value, or a list of the lines' values."""
    try:
        return json.loads(text)
    except ValueError as whole:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError:
            raise ConfigError(f"{path}: not JSON ({whole}): write it again") from None


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read as text ({error}); readable: {READABLE}"
        ) from None


def _unknown(path: Path, what: str) -> ConfigError:
    return ConfigError(f"{path}: {what}, which nobody here can read; readable: {READABLE}")
