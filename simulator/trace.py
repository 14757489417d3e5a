"""`Trace`: the requests of a run as columns, sorted by arrival.

Columns and not a list of `Request`, because a million requests must fit in memory and be
transformed at array speed; `Trace.from_requests` and `Trace.requests` convert both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import WorkloadError
from .request import Request

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests as columns; row i of every column is one request; rows sorted by arrival (stable).

    arrival_ns, prompt_tokens, output_tokens: int64, shape (n,).
    ids: original ids, unique; None means the source row number is the id.
    source_row: int64, 0-based position in the source before sorting; None means unsorted = sorted.
    priority: int64, smaller is sooner. client, session, parent: one name per row (None: no name).
    max_tokens: int64, the declared output limit; 0 means none declared.
    predicted_output_tokens: int64, a predictor's guess of output_tokens; 0 means none.
    think_ns: int64, for closed-loop users: pause between this user's last finish and this request.
    block_hashes: per row, ids of consecutive `hash_block_tokens`-token prefix blocks.
    prefix_group, prefix_tokens: the first prefix_tokens tokens are common to the group.
    notes: provenance, one line per reader, generator or transform, in order.
    rows_in: rows the reader saw; dropped: rows it dropped, counted by reason.
    """

    arrival_ns: Ints
    prompt_tokens: Ints
    output_tokens: Ints
    ids: tuple[str, ...] | None = None
    source_row: Ints | None = None
    priority: Ints | None = None
    client: tuple[str | None, ...] | None = None
    max_tokens: Ints | None = None
    predicted_output_tokens: Ints | None = None
    think_ns: Ints | None = None
    session: tuple[str | None, ...] | None = None
    parent: tuple[str | None, ...] | None = None
    block_hashes: tuple[tuple[int, ...], ...] | None = None
    hash_block_tokens: int | None = None
    prefix_group: tuple[str | None, ...] | None = None
    prefix_tokens: Ints | None = None
    notes: tuple[str, ...] = ()
    rows_in: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.arrival_ns)
        for name in COLUMNS:
            column = getattr(self, name)
            if column is not None and len(column) != n:
                raise WorkloadError(f"trace column {name} has {len(column)} rows, arrival_ns {n}")
        _require(self.arrival_ns >= 0, "arrival_ns", self.arrival_ns, "at least 0")
        _require(self.prompt_tokens >= 1, "prompt_tokens", self.prompt_tokens, "at least 1")
        _require(self.output_tokens >= 1, "output_tokens", self.output_tokens, "at least 1")
        if n and bool(np.any(np.diff(self.arrival_ns) < 0)):
            raise WorkloadError("trace rows are not sorted by arrival: use Trace.sorted(...)")

    def __len__(self) -> int:
        return len(self.arrival_ns)

    @classmethod
    def sorted(cls, **columns: Any) -> Trace:  # Any: the columns of this class, by name
        """Build from unsorted columns; ties keep their order; a note says if rows moved."""
        arrival_ns = columns["arrival_ns"]
        order = np.argsort(arrival_ns, kind="stable")
        if bool(np.all(order == np.arange(len(order)))):
            return cls(**columns)
        moved = {name: _pick(columns.get(name), order) for name in COLUMNS}
        if moved["source_row"] is None:
            moved["source_row"] = order
        notes = (*columns.get("notes", ()), "input was not sorted by arrival: sorted (stable)")
        return cls(**{**columns, **moved, "notes": notes})

    @classmethod
    def from_requests(cls, requests: Iterable[Request]) -> Trace:
        """Columns from `Request` objects, sorted by arrival (stable).

        >>> Trace.from_requests([Request("b", 5, 10, 1), Request("a", 0, 20, 2)]).ids
        ('a', 'b')
        """
        rows = list(requests)

        def ints(name: str) -> Ints:
            return np.array([getattr(row, name) or 0 for row in rows], dtype=np.int64)

        def optional(name: str) -> tuple[Any, ...] | None:
            values = tuple(getattr(row, name) for row in rows)
            return values if any(value is not None for value in values) else None

        hashes = optional("block_hashes")
        return cls.sorted(
            arrival_ns=ints("arrival_ns"),
            prompt_tokens=ints("prompt_tokens"),
            output_tokens=ints("output_tokens"),
            ids=tuple(row.id for row in rows),
            priority=ints("priority") if any(row.priority for row in rows) else None,
            client=optional("client"),
            max_tokens=ints("max_tokens") if optional("max_tokens") else None,
            predicted_output_tokens=(
                ints("predicted_output_tokens") if optional("predicted_output_tokens") else None
            ),
            session=optional("session"),
            parent=optional("parent"),
            block_hashes=tuple(h or () for h in hashes) if hashes else None,
            hash_block_tokens=next(
                (r.hash_block_tokens for r in rows if r.hash_block_tokens), None
            ),
        )

    def requests(self) -> Iterator[Request]:
        """The rows as `Request` objects, in arrival order."""
        for row in range(len(self)):
            declared = int(self.max_tokens[row]) if self.max_tokens is not None else 0
            guesses = self.predicted_output_tokens
            guess = int(guesses[row]) if guesses is not None else 0
            yield Request(
                id=self.id_of(row),
                arrival_ns=int(self.arrival_ns[row]),
                prompt_tokens=int(self.prompt_tokens[row]),
                output_tokens=int(self.output_tokens[row]),
                priority=int(self.priority[row]) if self.priority is not None else 0,
                client=self.client[row] if self.client else None,
                max_tokens=declared or None,
                predicted_output_tokens=guess or None,
                session=self.session[row] if self.session else None,
                parent=self.parent[row] if self.parent else None,
                block_hashes=self.block_hashes[row] if self.block_hashes else None,
                hash_block_tokens=self.hash_block_tokens,
            )

    def id_of(self, row: int) -> str:
        """The original id of a row, or its 0-based source row number as text."""
        if self.ids is not None:
            return self.ids[row]
        return str(row if self.source_row is None else int(self.source_row[row]))

    def take(self, rows: NDArray[Any], note: str | None = None) -> Trace:  # Any: mask or indices
        """The chosen rows (boolean mask or increasing indices), with a provenance note."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        picked = {name: _pick(getattr(self, name), index) for name in COLUMNS}
        if picked["source_row"] is None:
            picked["source_row"] = index.astype(np.int64)
        return replace(self, **picked, notes=(*self.notes, note) if note else self.notes)

    def changed(self, note: str, **columns: Any) -> Trace:  # Any: the columns of this class
        """A copy with some columns replaced, re-sorted if arrivals changed, with a note."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        return Trace.sorted(**{**kept, **columns, "notes": (*self.notes, note)})


COLUMNS = (
    "arrival_ns",
    "prompt_tokens",
    "output_tokens",
    "ids",
    "source_row",
    "priority",
    "client",
    "max_tokens",
    "predicted_output_tokens",
    "think_ns",
    "session",
    "parent",
    "block_hashes",
    "prefix_group",
    "prefix_tokens",
)
"""The per-row fields of `Trace`."""


def _pick(column: Any, index: NDArray[Any]) -> Any:  # Any: an array or a tuple column
    if column is None:
        return None
    if isinstance(column, tuple):
        return tuple(column[i] for i in index.tolist())
    return column[index]


def _require(ok: NDArray[np.bool_], name: str, values: Ints, limit: str) -> None:
    if not bool(ok.all()):
        row = int(np.argmin(ok))
        raise WorkloadError(f"trace row {row}: {name} {int(values[row])} must be {limit}")
