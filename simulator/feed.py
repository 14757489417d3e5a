"""`ArrivalFeed`: where requests come from. Pulled at step ends, never pushed.

Pulling keeps ties simple: a request that arrives at the very instant a step ends is there for
the next plan. Four sources:

- open loop: the trace says when (`OpenFeed`);
- a client-side cap on requests in flight delays the trace (`CappedFeed`, vLLM's
  `--max-concurrency`);
- closed loop: N users, each sends its next request a think time after its last one ended
  (`ClosedFeed`);
- sessions: a turn comes its think time after the turn before it ended (`SessionFeed`).
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Protocol

from .errors import ConfigError
from .sequence import Sequence
from .trace import Trace
from .turns import earlier_turns


class ArrivalFeed(Protocol):
    """Requests in order of arrival."""

    @property
    def next_ns(self) -> int | None:
        """When the next request arrives, as far as is known now; None: not known or never."""

    scheduled_ns: dict[int, int]
    """Row -> when the load source wanted to send it, where that differs from the arrival."""

    def pull(self, now_ns: int) -> list[Sequence]:
        """Requests that have arrived by now, oldest first; ask again while `next_ns` is due.

        What comes after a request that may be rejected can depend on that: then it is the only one.
        """

    def ended(self, row: int, now_ns: int) -> None:
        """The request of this row left the engine (finished or rejected)."""


class SequenceMaker:
    """Makes the `Sequence` of a trace row, only when it arrives.

    prompt, output: tokens by row. lengths_only: nothing else is known of any row.
    """

    __slots__ = (
        "_client",
        "_max_tokens",
        "_predicted",
        "_priority",
        "lengths_only",
        "output",
        "prompt",
    )

    def __init__(self, trace: Trace) -> None:
        self.prompt: list[int] = trace.prompt_tokens.tolist()
        self.output: list[int] = trace.output_tokens.tolist()
        self._priority: list[int] | None = _listed(trace.priority)
        self._max_tokens: list[int] | None = _listed(trace.max_tokens)
        self._predicted: list[int] | None = _listed(trace.predicted_output_tokens)
        self._client = trace.client

        self.lengths_only = trace.client is None and not (
            self._priority or self._max_tokens or self._predicted
        )

    def __call__(self, row: int, arrival_ns: int) -> Sequence:
        """The request of this row, arriving at `arrival_ns`."""
        sequence = Sequence(row, arrival_ns, self.prompt[row], self.output[row])
        if self.lengths_only:
            return sequence
        if self._priority is not None:
            sequence.priority = self._priority[row]
        if self._client is not None:
            sequence.client = self._client[row]
        if self._max_tokens is not None:
            sequence.max_tokens = self._max_tokens[row] or None
        if self._predicted is not None:
            sequence.predicted_output_tokens = self._predicted[row] or None
        return sequence


class OpenFeed:
    """The trace says when, whatever the engine does."""

    def __init__(self, trace: Trace) -> None:
        self._arrivals: list[int] = trace.arrival_ns.tolist()
        self._make = SequenceMaker(trace)
        self._row = 0
        self.scheduled_ns: dict[int, int] = {}
        self.next_ns: int | None = self._arrivals[0] if self._arrivals else None

    def pull(self, now_ns: int) -> list[Sequence]:
        """The requests that have arrived by now."""
        arrived: list[Sequence] = []
        arrivals, row, rows = self._arrivals, self._row, len(self._arrivals)
        make, next_ns = self._make, self.next_ns
        prompt, output, plain = make.prompt, make.output, make.lengths_only
        while next_ns is not None and next_ns <= now_ns:
            if plain:  # a call less for each
                arrived.append(Sequence(row, next_ns, prompt[row], output[row]))
            else:
                arrived.append(make(row, next_ns))
            row += 1
            next_ns = arrivals[row] if row < rows else None
        self._row, self.next_ns = row, next_ns
        return arrived

    def ended(self, row: int, now_ns: int) -> None:
        """An open loop does not care."""


class CappedFeed:
    """The trace says when, but at most `max_concurrency` requests are in flight."""

    def __init__(self, trace: Trace, max_concurrency: int) -> None:
        if max_concurrency < 1:
            raise ConfigError(f"max_concurrency is {max_concurrency}, must be at least 1")
        self._wanted: deque[int] = deque(trace.arrival_ns.tolist())
        self._make = SequenceMaker(trace)
        self._row = 0
        self._free = max_concurrency
        self._freed_ns = 0
        self.scheduled_ns: dict[int, int] = {}

    @property
    def next_ns(self) -> int | None:
        """When the next one may leave the client; unknown while the cap is reached."""
        if not self._wanted or not self._free:
            return None
        return max(self._wanted[0], self._freed_ns)

    def pull(self, now_ns: int) -> list[Sequence]:
        """The next request that left the client by now."""
        if not self._free or not self._wanted or self._wanted[0] > now_ns:
            return []
        wanted_ns = self._wanted.popleft()
        arrival_ns = max(wanted_ns, self._freed_ns)
        if arrival_ns != wanted_ns:
            self.scheduled_ns[self._row] = wanted_ns
        sequence = self._make(self._row, arrival_ns)
        self._row += 1
        self._free -= 1
        return [sequence]

    def ended(self, row: int, now_ns: int) -> None:
        """A place under the cap is free."""
        if not self._free:
            self._freed_ns = now_ns
        self._free += 1


class Outbox:
    """Requests that clients are going to send: (when, row), sent in that order."""

    __slots__ = ("_due", "_make", "_think")

    def __init__(self, trace: Trace, due: list[tuple[int, int]]) -> None:
        self._think: list[int] | None = _listed(trace.think_ns)
        self._make = SequenceMaker(trace)
        self._due = due
        heapify(due)

    @property
    def next_ns(self) -> int | None:
        """When the next one is due; unknown while all clients wait for answers."""
        return self._due[0][0] if self._due else None

    def pull(self, now_ns: int) -> list[Sequence]:
        """The next request sent by now."""
        if not self._due or self._due[0][0] > now_ns:
            return []
        arrival_ns, row = heappop(self._due)
        return [self._make(row, arrival_ns)]

    def think(self, row: int, now_ns: int) -> None:
        """Send this row when its client has thought about the answer it got now."""
        pause_ns = self._think[row] if self._think is not None else 0
        heappush(self._due, (now_ns + pause_ns, row))


class ClosedFeed:
    """N users; each takes the next row when its last request has ended and it has thought."""

    def __init__(self, trace: Trace, users: int) -> None:
        if users < 1:
            raise ConfigError(f"users is {users}, must be at least 1")
        self._rows = len(trace)
        self._taken = min(users, self._rows)
        first: list[int] = trace.arrival_ns[: self._taken].tolist()
        self._outbox = Outbox(trace, list(zip(first, range(self._taken), strict=True)))
        self.pull = self._outbox.pull
        self.scheduled_ns: dict[int, int] = {}

    @property
    def next_ns(self) -> int | None:
        """When the next user has thought; unknown while all of them wait for answers."""
        return self._outbox.next_ns

    def ended(self, row: int, now_ns: int) -> None:
        """Its user thinks, then sends the next row."""
        if self._taken < self._rows:
            self._outbox.think(self._taken, now_ns)
            self._taken += 1


class SessionFeed:
    """Conversations start as the trace says; a later turn follows the end of its parent.

    A row without a parent in the trace arrives at its `arrival_ns`, every other one its
    `think_ns` after its parent finished; its own `arrival_ns` is not looked at. If the parent was
    rejected, the client goes on without the answer: the turn comes `think_ns` after that.

    Raises:
        WorkloadError: a turn that would have to come before itself.
    """

    def __init__(self, trace: Trace) -> None:
        self._next_turns, first = _turns(trace)
        due = list(zip(trace.arrival_ns[first].tolist(), first, strict=True))
        self._outbox = Outbox(trace, due)
        self.pull = self._outbox.pull
        self.scheduled_ns: dict[int, int] = {}

    @property
    def next_ns(self) -> int | None:
        """When the next turn is due; unknown while all that are left wait for answers."""
        return self._outbox.next_ns

    def ended(self, row: int, now_ns: int) -> None:
        """Whoever continues this turn thinks, then sends the next."""
        for turn in self._next_turns.get(row, ()):
            self._outbox.think(turn, now_ns)


def _turns(trace: Trace) -> tuple[dict[int, list[int]], list[int]]:
    """(row -> the rows that continue it, rows that continue none), all ascending."""
    earlier = earlier_turns(trace)
    next_turns: dict[int, list[int]] = {}
    for row, parent in earlier.items():
        next_turns.setdefault(parent, []).append(row)
    return next_turns, [row for row in range(len(trace)) if row not in earlier]


def _listed(column: object) -> list[int] | None:
    return None if column is None else column.tolist()  # type: ignore[attr-defined]
