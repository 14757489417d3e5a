"""Chunks of rows collected into one `Trace`, with its provenance."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from simulator.errors import WorkloadError
from simulator.trace import Trace

from .cells import Ints
from .columns import Chunk, Values, pick
from .detect import Layout
from .formats import ARRIVALS
from .hashes import Hashes, check_hashes, hash_block_size
from .links import check_links, without_lost_parents
from .provenance import Provenance
from .source import Source

_FAILED = "failed (0 output tokens)"


class Gathered:
    """The usable rows of a file so far, and the count of the others by reason."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self._source = source
        self._layout = layout
        self._parts: defaultdict[str, list[Values]] = defaultdict(list)
        self._lines: list[Ints] = []
        self._positions: list[Ints] = []
        self._rows_in = 0
        self._dropped: Counter[str] = Counter()
        self._prompt_only = 0

    def add(self, chunk: Chunk, *, keep_failed: bool) -> list[int]:
        """Take the rows of a chunk; failed ones are dropped, or kept with one output token.

        Returns the lines of the failed rows.
        """
        fields, lines, position = chunk.fields, chunk.lines, chunk.position + self._rows_in
        self._rows_in += chunk.rows
        self._dropped.update(f"{bad.place} {bad.reason}" for bad in chunk.bad)
        output_tokens = fields["output_tokens"]
        assert isinstance(output_tokens, np.ndarray)
        failed = output_tokens == 0
        failed_lines: list[int] = lines[failed].tolist()
        if failed_lines and keep_failed:
            fields = {**fields, "output_tokens": np.maximum(output_tokens, 1)}
            self._prompt_only += len(failed_lines)
        elif failed_lines:
            fields = {name: pick(values, ~failed) for name, values in fields.items()}
            lines, position = lines[~failed], position[~failed]
            self._dropped[_FAILED] += len(failed_lines)
        for name, values in fields.items():
            self._parts[name].append(values)
        self._lines.append(lines)
        self._positions.append(position)
        return failed_lines

    def trace(self, saved: Provenance | None, hash_block_tokens: int | None) -> Trace:
        """All rows as a trace, sorted by arrival (stable).

        saved: provenance found in a file of Runway's own, which takes the place of a new note.

        Raises:
            WorkloadError: no rows, an id used twice, or block hashes that fit no block size.
        """
        lines = _joined(self._lines)
        if not len(lines):
            raise WorkloadError(self._nothing_left())
        columns: dict[str, Any] = {name: _joined(p) for name, p in self._parts.items()}
        for name in self._layout.optional:
            values = columns[name]
            if not (values.any() if isinstance(values, np.ndarray) else any(values)):
                del columns[name]
        ids = columns.pop("id", None)
        if ids is not None:
            self._require_unique(ids, lines)
        hashes = columns.pop("block_hashes", None)
        if hashes is not None:
            given = hash_block_tokens or (saved.hash_block_tokens if saved else None)
            columns["block_hashes"] = tuple(hashes)
            columns["hash_block_tokens"] = self._block_size(columns, hashes, lines, given)
        if any(self._dropped.values()) and "source_row" not in columns:
            columns["source_row"] = _joined(self._positions)
        arrival_ns = self._arrival_ns(columns, len(lines))
        self._require_whole_prefixes(columns)
        if "parent" in columns:
            names = ids or columns.get("source_row", np.arange(len(lines))).astype(str).tolist()
            check_links(names, columns["parent"], arrival_ns, lines, str(self._source.path))
        trace = Trace.sorted(
            arrival_ns=arrival_ns,
            ids=ids and tuple(ids),
            **{name: _column(values) for name, values in columns.items()},
            **self._provenance(saved),
        )
        return without_lost_parents(trace) if self._dropped else trace

    def _arrival_ns(self, columns: dict[str, Any], rows: int) -> Ints:  # Any: columns by name
        name = self._arrival_field()
        if name is None:
            return np.zeros(rows, dtype=np.int64)
        values: Ints = columns.pop(name)
        return values - values.min() if name == "timestamp" else values

    def _arrival_field(self) -> str | None:
        return next((name for name in self._layout.columns if name in ARRIVALS), None)

    def _block_size(
        self, columns: dict[str, Any], hashes: Hashes, lines: Ints, given: int | None
    ) -> int | None:  # Any: columns by name
        prompts, path = columns["prompt_tokens"], str(self._source.path)
        if given is None:
            return hash_block_size(prompts, hashes, lines, path) if any(hashes) else None
        check_hashes(prompts, hashes, given, lines, path)
        return given

    def _require_unique(self, ids: list[str], lines: Ints) -> None:
        if len(set(ids)) == len(ids):
            return
        first: dict[str, int] = {}
        for name, line in zip(ids, lines.tolist(), strict=True):
            if name in first:
                raise WorkloadError(
                    f"{self._source.path}, lines {first[name]} and {line}: id {name!r} is used "
                    "twice: rename one, or leave the id column out to use row numbers"
                )
            first[name] = line

    def _require_whole_prefixes(self, columns: dict[str, Any]) -> None:  # Any: columns by name
        both = ("prefix_group", "prefix_tokens")
        given = [name for name in both if name in columns]
        if self._layout.format != "runway" and len(given) == 1:
            (missing,) = set(both) - set(given)
            raise WorkloadError(
                f"{self._source.path}: {given[0]} says nothing without {missing}, which no row "
                "has: map both or neither"
            )

    def _provenance(self, saved: Provenance | None) -> dict[str, Any]:  # Any: Trace fields
        notes = list(saved.notes) if saved else [self._read_note()]
        if self._dropped:
            notes.append(
                f"dropped {self._dropped.total():,} of {self._rows_in:,} rows: {self._why()}"
            )
        if self._prompt_only:
            notes.append(f"{self._prompt_only:,} failed rows kept as prompt-only: 1 output token")
        if self._arrival_field() is None:
            notes.append("no arrival times in the file: every request arrives at t=0")
        before = dict(saved.dropped) if saved else {}
        return {
            "notes": tuple(notes),
            "rows_in": saved.rows_in if saved else self._rows_in,
            "dropped": {**before, **self._dropped},
        }

    def _read_note(self) -> str:
        source, layout = self._source, self._layout
        mapped = "".join(f", {name} from {column!r}" for name, column in layout.overrides.items())
        return (
            f"read {source.path.name} as {layout.format}: {self._rows_in:,} rows, "
            f"sha256 {source.sha256[:16]}{mapped}"
        )

    def _nothing_left(self) -> str:
        if not self._rows_in:
            return f"{self._source.path}: no requests, the file has a header and no rows"
        return (
            f"{self._source.path}: no requests, all {self._rows_in:,} rows were dropped: "
            f"{self._why()}"
        )

    def _why(self) -> str:
        return "; ".join(f"{reason} ({count:,})" for reason, count in self._dropped.items())


def _joined(parts: list[Any]) -> Any:  # Any: arrays or lists, all of one kind
    if not parts:
        return np.zeros(0, dtype=np.int64)
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [value for part in parts for value in part]


def _column(values: Any) -> Any:  # Any: an array, a list of names, or ready
    return tuple(values) if isinstance(values, list) else values
