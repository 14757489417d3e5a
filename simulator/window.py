"""`Span`: the part of a run that its numbers describe.

Latencies describe requests that *arrived* in [start, end), whenever they finish. Rates count
events (tokens, completions) whose time lies in [start, end). The whole run counts everything,
what happens at its very end included.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError
from .result import Ints, Result, State, Steps
from .units import ns_to_seconds, seconds_to_ns

_EVER = 2**61  # later than any event, and its negative later than NOT_YET


@dataclass(frozen=True, slots=True)
class Window:
    """Measure [start_ns, end_ns) only; absolute simulated time, nanoseconds.

    Raises:
        ConfigError: an empty window.
    """

    start_ns: int
    end_ns: int

    def __post_init__(self) -> None:
        if self.end_ns <= self.start_ns:
            raise ConfigError(
                f"the window ends at {ns_to_seconds(self.end_ns)} s and starts at "
                f"{ns_to_seconds(self.start_ns)} s: the end must be later"
            )


@dataclass(frozen=True, slots=True)
class Trim:
    """Leave out the beginning (warm-up) and the end (cool-down) of a run; nothing by default.

    Each side is given one way: as a fraction of the run's duration, in seconds, or in requests
    (the first or last so many, by arrival).

    Raises:
        ConfigError: a negative amount, fractions that leave nothing, or one side given two ways.
    """

    warmup_fraction: float = 0.0
    warmup_s: float = 0.0
    warmup_requests: int = 0
    cooldown_fraction: float = 0.0
    cooldown_s: float = 0.0
    cooldown_requests: int = 0

    def __post_init__(self) -> None:
        amounts = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, amount in amounts.items():
            if not 0 <= amount < float("inf"):
                raise ConfigError(f"{name} is {amount}, must be 0 or more")
        for side in ("warmup", "cooldown"):
            given = [name for name in amounts if name.startswith(side) and amounts[name]]
            if len(given) > 1:
                raise ConfigError(f"{' and '.join(given)} are both given: choose one of them")
        if self.warmup_fraction + self.cooldown_fraction >= 1:
            raise ConfigError(
                f"warmup_fraction {self.warmup_fraction} and cooldown_fraction "
                f"{self.cooldown_fraction} leave nothing of the run: their sum must be below 1"
            )

    @property
    def cuts_start(self) -> bool:
        """Whether there is a warm-up."""
        return bool(self.warmup_fraction or self.warmup_s or self.warmup_requests)

    @property
    def cuts_end(self) -> bool:
        """Whether there is a cool-down."""
        return bool(self.cooldown_fraction or self.cooldown_s or self.cooldown_requests)


@dataclass(frozen=True, slots=True)
class Span:
    """A resolved window. Integrals run over [start_ns, end_ns).

    counts_from_ns, counts_until_ns: events in [from, until) count. They are the same two
    instants, except that an untrimmed side counts everything that happened.
    arrivals_end_ns: until when requests kept arriving: the end, or the last arrival before it.
    """

    start_ns: int
    end_ns: int
    counts_from_ns: int
    counts_until_ns: int
    arrivals_end_ns: int

    @property
    def length_ns(self) -> int:
        """Duration of the window."""
        return self.end_ns - self.start_ns

    @property
    def is_whole_run(self) -> bool:
        """Whether everything counts."""
        return self.counts_from_ns == -_EVER and self.counts_until_ns == _EVER

    def counts(self, times_ns: Ints) -> NDArray[np.bool_]:
        """Which events count; `NOT_YET` never does. Shape as given."""
        return (times_ns >= self.counts_from_ns) & (times_ns < self.counts_until_ns)

    def submitted(self, result: Result) -> NDArray[np.bool_]:
        """The rows that arrived and whose arrival counts, shape (n,)."""
        log = result.requests
        arrived: NDArray[np.bool_] = log.state != State.NOT_ARRIVED
        return arrived & self.counts(log.arrival_ns)

    def counted_steps(self, steps: Steps) -> slice:
        """The steps whose end counts."""
        if self.is_whole_run:
            return slice(None)
        edges = [self.counts_from_ns, self.counts_until_ns]
        low, high = np.searchsorted(steps.end_ns, edges)
        return slice(int(low), int(high))


def resolve(result: Result, window: Window | Trim | None) -> Span:
    """The span that a window or a trim means for this run; None is the whole run.

    The whole run lasts from the first arrival to the last finish, or to the end of the run if it
    was stopped with work left.

    Raises:
        ConfigError: a trim that leaves nothing.
    """
    if isinstance(window, Window):
        start_ns, end_ns = window.start_ns, window.end_ns
        return Span(start_ns, end_ns, start_ns, end_ns, end_ns)
    log = result.requests
    arrivals = np.sort(log.arrival_ns[log.state != State.NOT_ARRIVED])
    whole = _whole_run(result, arrivals)
    return whole if window is None else _trimmed(whole, window, arrivals)


def _whole_run(result: Result, arrivals: Ints) -> Span:
    if not len(arrivals):
        return Span(0, 0, -_EVER, _EVER, 0)
    state = result.requests.state
    first_ns, last_ns = int(arrivals[0]), int(arrivals[-1])
    drained = not bool(np.any((state == State.UNFINISHED) | (state == State.NOT_ARRIVED)))
    finished = result.requests.finish_ns[state == State.FINISHED]
    end_ns = result.end_ns
    if drained:
        end_ns = int(finished.max()) if len(finished) else last_ns
    still_arriving = bool(np.any(state == State.NOT_ARRIVED))
    arrivals_end_ns = end_ns if still_arriving else min(last_ns, end_ns)
    return Span(first_ns, end_ns, -_EVER, _EVER, arrivals_end_ns)


def _trimmed(whole: Span, trim: Trim, arrivals: Ints) -> Span:
    start_ns, end_ns = whole.start_ns, whole.end_ns
    length_ns, rows = whole.length_ns, len(arrivals)
    if trim.warmup_requests + trim.cooldown_requests >= rows and trim != Trim():
        raise ConfigError(
            f"warmup_requests {trim.warmup_requests} and cooldown_requests "
            f"{trim.cooldown_requests} leave none of {rows} requests: lower them"
        )
    if trim.warmup_requests:
        start_ns = int(arrivals[trim.warmup_requests])
    elif trim.cuts_start:
        start_ns += round(trim.warmup_fraction * length_ns) + seconds_to_ns(trim.warmup_s)
    if trim.cooldown_requests:
        end_ns = int(arrivals[rows - trim.cooldown_requests])
    elif trim.cuts_end:
        end_ns -= round(trim.cooldown_fraction * length_ns) + seconds_to_ns(trim.cooldown_s)
    if trim != Trim() and end_ns <= start_ns:
        raise ConfigError(
            f"warm-up and cool-down leave nothing of a run of {ns_to_seconds(length_ns)} s: "
            "lower them"
        )
    return Span(
        start_ns,
        end_ns,
        start_ns if trim.cuts_start else -_EVER,
        end_ns if trim.cuts_end else _EVER,
        min(end_ns, whole.arrivals_end_ns),
    )
