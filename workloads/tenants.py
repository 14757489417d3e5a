"""`merge`: several clients' traces on one engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.errors import WorkloadError
from simulator.trace import Trace

_NUMBERS = ("priority", "max_tokens", "predicted_output_tokens", "think_ns", "prefix_tokens")
_NAMES = ("session", "parent", "prefix_group")


def merge(traces: Mapping[str, Trace]) -> Trace:
    """All requests of all clients in order of arrival; at ties, in the order of the mapping.

    `client` becomes the key, an id `key/id`; sessions, parents and prefix groups likewise, so that
    equal names of two clients stay apart. Block hashes are renumbered per client: clients share
    no prefixes.

    Raises:
        WorkloadError: no traces, or block hashes of different block sizes.
    """
    if not traces:
        raise WorkloadError("no requests: merge needs at least one trace")
    parts = list(traces.values())
    order = np.argsort(np.concatenate([part.arrival_ns for part in parts]), kind="stable")
    columns: dict[str, Any] = {}  # Any: arrays and tuples, by column name
    for name in ("arrival_ns", "prompt_tokens", "output_tokens"):
        columns[name] = np.concatenate([getattr(part, name) for part in parts])[order]
    for name in _NUMBERS:
        columns[name] = _numbers(parts, name, order)
    for name in _NAMES:
        columns[name] = _names(traces, name, order)
    ids = [f"{key}/{part.id_of(row)}" for key, part in traces.items() for row in range(len(part))]
    clients = [key for key, part in traces.items() for _ in range(len(part))]
    return Trace(
        **columns,
        ids=tuple(ids[row] for row in order.tolist()),
        client=tuple(clients[row] for row in order.tolist()),
        block_hashes=_hashes(parts, order),
        hash_block_tokens=_block_size(traces),
        notes=_notes(traces),
        rows_in=_total(parts),
        dropped=_dropped(traces),
    )


def _numbers(parts: list[Trace], name: str, order: Any) -> Any:  # Any: int64 arrays
    if all(getattr(part, name) is None for part in parts):
        return None
    filled = [
        np.zeros(len(part), dtype=np.int64) if getattr(part, name) is None else getattr(part, name)
        for part in parts
    ]
    return np.concatenate(filled)[order]


def _names(traces: Mapping[str, Trace], name: str, order: Any) -> Any:  # Any: int64, a tuple
    if all(getattr(part, name) is None for part in traces.values()):
        return None
    names = [
        None if value is None else f"{key}/{value}"
        for key, part in traces.items()
        for value in getattr(part, name) or (None,) * len(part)
    ]
    return tuple(names[row] for row in order.tolist())


def _hashes(parts: list[Trace], order: Any) -> Any:  # Any: int64, a tuple of tuples
    if all(part.block_hashes is None for part in parts):
        return None
    offset = 0
    renumbered: list[tuple[int, ...]] = []
    for part in parts:
        hashes = part.block_hashes or ((),) * len(part)
        known = {
            old: offset + new for new, old in enumerate(sorted({i for h in hashes for i in h}))
        }
        renumbered.extend(tuple(known[i] for i in ids) for ids in hashes)
        offset += len(known)
    return tuple(renumbered[row] for row in order.tolist())


def _block_size(traces: Mapping[str, Trace]) -> int | None:
    sizes = {key: part.hash_block_tokens for key, part in traces.items() if part.hash_block_tokens}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{key} {size}" for key, size in sizes.items())
        raise WorkloadError(f"merge: block hashes cover different numbers of tokens: {listed}")
    return next(iter(sizes.values()), None)


def _notes(traces: Mapping[str, Trace]) -> tuple[str, ...]:
    own = [f"{key}: {note}" for key, part in traces.items() for note in part.notes]
    counts = ", ".join(f"{key} {len(part):,}" for key, part in traces.items())
    return (*own, f"merged clients: {counts}")


def _total(parts: list[Trace]) -> int | None:
    counts = [part.rows_in for part in parts if part.rows_in is not None]
    return sum(counts) if len(counts) == len(parts) else None


def _dropped(traces: Mapping[str, Trace]) -> dict[str, int]:
    return {
        f"{key}: {reason}": count
        for key, part in traces.items()
        for reason, count in part.dropped.items()
    }
