"""`Stays`: who is somewhere, and since when; how many at an instant and how long in all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .result import NOT_YET, Ints, Result, State
from .statistics import exact_dot


@dataclass(frozen=True, slots=True, eq=False)
class Stays:
    """Stays [enter, leave) in some place. Columns: int64 ns, shape (n,), sorted each by itself.

    Who entered first need not leave first: counts and areas do not depend on the pairing.
    """

    enter_ns: Ints
    leave_ns: Ints

    @classmethod
    def of(cls, enter_ns: Ints, leave_ns: Ints) -> Stays:
        """Stays in any order."""
        return cls(np.sort(enter_ns), np.sort(leave_ns))

    def count_at(self, times_ns: Ints) -> Ints:
        """How many are there once everything at that instant has happened."""
        entered = np.searchsorted(self.enter_ns, times_ns, side="right")
        return entered - np.searchsorted(self.leave_ns, times_ns, side="right")

    def area_ns(self, start_ns: int, end_ns: int) -> int:
        """Time integral of the count over [start, end), in ns.

        >>> Stays(np.array([0, 10, 20]), np.array([15, 30, 45])).area_ns(0, 45)
        60
        """
        return self._elapsed_ns(self.enter_ns, start_ns, end_ns) - self._elapsed_ns(
            self.leave_ns, start_ns, end_ns
        )

    def peak(self, start_ns: int, end_ns: int) -> int:
        """The largest count that lasts in [start, end); an instant's coming and going is none."""
        inside = self.enter_ns[(self.enter_ns > start_ns) & (self.enter_ns < end_ns)]
        return int(self.count_at(np.append(inside, start_ns)).max())

    @staticmethod
    def _elapsed_ns(since_ns: Ints, start_ns: int, end_ns: int) -> int:
        return exact_dot(end_ns - np.clip(since_ns, start_ns, end_ns))


def instants(*columns_ns: Ints) -> Ints:
    """The distinct times of some columns, ascending (sorting beats the hashing of `np.unique`)."""
    times_ns = np.sort(np.concatenate(columns_ns))
    first = np.append(True, times_ns[1:] != times_ns[:-1])
    distinct: Ints = times_ns[first[: len(times_ns)]]
    return distinct


def accepted(result: Result) -> NDArray[np.bool_]:
    """Rows that were in the system: finished or unfinished; shape (n,)."""
    state = result.requests.state
    return np.isin(state, (State.FINISHED, State.UNFINISHED))


def or_end(times_ns: Ints, result: Result) -> Ints:
    """The times, with the end of the run where it has not happened by then."""
    return np.where(times_ns == NOT_YET, result.end_ns, times_ns)


def in_system(result: Result) -> Stays:
    """Requests between arrival and finish, or the end of the run."""
    rows, log = accepted(result), result.requests
    return Stays.of(log.arrival_ns[rows], or_end(log.finish_ns[rows], result))


def waiting(result: Result, rows: NDArray[np.bool_] | None = None) -> Stays:
    """Requests in the queue: from arrival to their first step, and from preemption to resumption.

    rows: of these rows only; default all. Shape (n,), bool.
    """
    log, evictions = result.requests, result.evictions
    chosen = accepted(result) if rows is None else accepted(result) & rows
    evicted = chosen[evictions.row]
    enter = (log.arrival_ns[chosen], evictions.preempt_ns[evicted])
    leave = (log.first_start_ns[chosen], evictions.resume_ns[evicted])
    return Stays.of(np.concatenate(enter), or_end(np.concatenate(leave), result))
