"""Settings that change less than their name says, and the points that they hold for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .store import Record

Notes = Mapping[str, tuple[int, ...]]
"""What a run says of its settings -> the points that say it."""


def notes_of(records: Sequence[Record]) -> Notes:
    """Every note once, in the order of the points. records: one per point, in order.

    >>> dict(notes_of([{"notes": ["a"]}, {}, {"notes": ["b", "a"]}]))
    {'a': (0, 2), 'b': (2,)}
    """
    found: dict[str, tuple[int, ...]] = {}
    for index, record in enumerate(records):
        for note in record.get("notes", ()):
            found[note] = (*found.get(note, ()), index)
    return found


def described(notes: Notes) -> list[dict[str, object]]:
    """For sweep.yaml and JSON."""
    return [{"note": note, "points": list(points)} for note, points in notes.items()]
