"""`Slots`: which sequence holds which slot of a padded KV cache.

The decodes of a step must lie in the first slots, so that one kernel attends all of them without
copying a cache. Whoever lies elsewhere is moved there, which is needed after somebody left.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import NamedTuple

from simulator.errors import SimulatorError
from simulator.sequence import Sequence


class Move(NamedTuple):
    """Slot `source` goes to `target`; what was in `target` comes back if both are in use."""

    source: int
    target: int
    swaps: bool


class Slots:
    """A fixed number of slots; `slot_of[sequence]` is who lies where."""

    def __init__(self, count: int) -> None:
        self._held: list[Sequence | None] = [None] * count
        self.slot_of: dict[Sequence, int] = {}

    def release_all_but(self, running: Container[Sequence]) -> None:
        """Free the slots of who finished or was preempted."""
        for sequence, slot in list(self.slot_of.items()):
            if sequence not in running:
                del self.slot_of[sequence]
                self._held[slot] = None

    def gather(self, decodes: Collection[Sequence]) -> list[Move]:
        """Bring the decodes into the first slots, with as few moves as that needs.

        >>> from simulator.sequence import Sequence
        >>> a, b, c = (Sequence(row, 0, 5, 5) for row in range(3))
        >>> slots = Slots(4)
        >>> [slots.take(sequence) for sequence in (a, b, c)]
        [0, 1, 2]
        >>> slots.release_all_but({b, c})
        >>> slots.gather([b, c])
        [Move(source=2, target=0, swaps=False)]
        """
        first, chosen = len(decodes), set(decodes)
        moves = []
        wanted = (slot for slot in range(first) if self._held[slot] not in chosen)
        for sequence in [s for s in decodes if self.slot_of[s] >= first]:
            source, target = self.slot_of[sequence], next(wanted)
            other = self._held[target]
            moves.append(Move(source, target, swaps=other is not None))
            self._put(sequence, target)
            self._held[source] = None
            if other is not None:
                self._put(other, source)
        return moves

    def take(self, sequence: Sequence) -> int:
        """The sequence's slot; the first free one if it has none yet."""
        if sequence not in self.slot_of:
            if None not in self._held:
                raise SimulatorError(f"{sequence} finds no slot: {len(self._held)} are in use")
            self._put(sequence, self._held.index(None))
        return self.slot_of[sequence]

    def _put(self, sequence: Sequence, slot: int) -> None:
        self._held[slot] = sequence
        self.slot_of[sequence] = slot
