"""`read_trace`: any trace file to a `Trace`, or one error that says what is wrong and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from simulator.errors import WorkloadError, nearest
from simulator.trace import Trace

from .columns import read_chunk
from .detect import Layout, choose
from .gather import Gathered
from .source import Source, open_source
from .tables import BadRow, Table, open_table

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
BadRows = Literal["refuse", "skip"]
FailedRows = Literal["drop", "refuse", "prompt-only"]


def read_trace(
    path: str | Path,
    *,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    bad_rows: BadRows = "refuse",
    failed_rows: FailedRows = "drop",
    hash_block_tokens: int | None = None,
) -> Trace:
    """Read a trace file; gzip is recognised by its bytes, the format by its columns.

    Args:
        format: a name in `FORMATS`; None detects it.
        columns: field name (a key of `FIELDS`) -> column of the file, over the format's own.
        bad_rows: "refuse" stops at the first unusable row; "skip" drops and counts it.
        failed_rows: what a `burstgpt` row of 0 output tokens becomes: dropped and counted,
            refused, or "prompt-only": one output token, so that its prompt loads the engine
            while it adds nothing to TPOT or ITL. Other formats treat such a row as bad.
        hash_block_tokens: prompt tokens per block hash; None infers 512 or 16.

    Raises:
        WorkloadError: the file, a column or a cell is wrong, or no request is left. The
            message names the file, the 1-based line, the column and the text.
    """
    _one_of("bad_rows", bad_rows, get_args(BadRows))
    _one_of("failed_rows", failed_rows, get_args(FailedRows))
    source = open_source(path)
    with open_table(source) as table:
        layout = choose(table, source, format, columns)
        if failed_rows == "prompt-only" and layout.format != "burstgpt":
            raise WorkloadError(
                f"{path}: failed_rows prompt-only is for burstgpt traces, a {layout.format} trace "
                "records no failed rows: drop the option"
            )
        gathered = Gathered(source, layout)
        for rows in table.rows(list(dict.fromkeys(layout.columns.values()))):
            chunk = read_chunk(rows, layout)
            if chunk.bad and bad_rows == "refuse":
                raise WorkloadError(_complaint(chunk.bad[0], table, source, layout))
            failed = gathered.add(chunk, keep_failed=failed_rows == "prompt-only")
            if failed and failed_rows == "refuse":
                place = f"column {layout.columns['output_tokens']}"
                row = BadRow(failed[0], place, "0", "marks a failed row")
                raise WorkloadError(_complaint(row, table, source, layout))
        saved = table.provenance if layout.format == "runway" else None
    return gathered.trace(saved, hash_block_tokens)


def _complaint(row: BadRow, table: Table, source: Source, layout: Layout) -> str:
    option = "failed_rows drop" if "failed" in row.reason else "bad_rows skip"
    text = row.text if len(row.text) <= 60 else row.text[:57] + "..."
    return (
        f"{source.path}, {table.unit} {row.line}, {row.place}: {text!r} {row.reason}: "
        f"correct the row, or read with {option}{_unit(row, layout)}"
    )


def _unit(row: BadRow, layout: Layout) -> str:
    """The way out for a column of numbers that was taken for dates by its name."""
    column = layout.columns.get("timestamp")
    if row.place != f"column {column}" or not _NUMBER.fullmatch(row.text.strip()):
        return ""
    if layout.format not in ("csv", "jsonl", "parquet"):
        return ""
    return f"; if all rows are numbers, --columns arrival_s={column} or arrival_ms={column}"


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise WorkloadError(f"{name} {value!r} must be {' or '.join(known)}{nearest(value, known)}")
