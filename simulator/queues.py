"""The waiting queue: who is asked first when there is room.

Iterating gives the head first. `FcfsQueue`: order of arrival, preempted sequences in front.
`KeyedQueue`: by a key the policy gives (priority, deadline …), ties by arrival.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from .sequence import Sequence


class WaitingQueue(Protocol):
    """Sequences that wait for admission, head first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Sequence]: ...
    def __contains__(self, sequence: object) -> bool: ...

    def add(self, sequence: Sequence) -> None:
        """A new arrival."""

    def put_back(self, sequence: Sequence) -> None:
        """A preempted sequence."""

    def remove(self, sequence: Sequence) -> None:
        """Admitted, or ended while it waited."""


class FcfsQueue(OrderedDict[Sequence, None]):
    """First come, first served; a preempted sequence goes to the very front."""

    __slots__ = ()

    add = OrderedDict.setdefault
    """To the end."""
    remove = OrderedDict.__delitem__
    """Gone from the queue."""

    def put_back(self, sequence: Sequence) -> None:
        """To the front."""
        self[sequence] = None
        self.move_to_end(sequence, last=False)


class KeyedQueue:
    """Smallest key first; ties by (arrival, row). Any: keys are whatever the policy compares."""

    __slots__ = ("_entries", "_key", "_places")

    def __init__(self, key: Callable[[Sequence], Any]) -> None:
        self._key = key
        self._entries: list[tuple[Any, int, int, Sequence]] = []
        self._places: dict[Sequence, tuple[Any, int, int, Sequence]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Sequence]:
        return (entry[3] for entry in self._entries)

    def __contains__(self, sequence: object) -> bool:
        return sequence in self._places

    def add(self, sequence: Sequence) -> None:
        """To its place by key."""
        entry = (self._key(sequence), sequence.arrival_ns, sequence.row, sequence)
        self._places[sequence] = entry
        insort(self._entries, entry)

    put_back = add

    def remove(self, sequence: Sequence) -> None:
        """Gone from the queue."""
        self._entries.remove(self._places.pop(sequence))
