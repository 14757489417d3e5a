"""Times of single requests, from the columns of a `Result`.

Every function takes the result and the rows to look at (increasing indices, shape (k,)) and
returns a column of shape (k,): int64 ns, or float64 ms where a division is involved. The caller
passes rows for which the events happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from .errors import ConfigError
from .result import NOT_YET, Ints, Result
from .units import NS_PER_MS

Floats = NDArray[np.float64]
Measure = Callable[[Result, Ints], Ints | Floats]


def ttft_ns(result: Result, rows: Ints) -> Ints:
    """Arrival to first token, queueing included; from send to read if there is a client delay."""
    log = result.requests
    return log.first_token_ns[rows] - log.arrival_ns[rows] + _outside_ns(result, rows)


def e2el_ns(result: Result, rows: Ints) -> Ints:
    """Arrival to last token; from send to read if there is a client delay."""
    log = result.requests
    return log.finish_ns[rows] - log.arrival_ns[rows] + _outside_ns(result, rows)


def queue_ns(result: Result, rows: Ints) -> Ints:
    """Arrival to the start of the first step that computes for it; preemptions never move it."""
    return result.requests.first_start_ns[rows] - result.requests.arrival_ns[rows]


def dispatch_ns(result: Result, rows: Ints) -> Ints:
    """From when the load source wanted to send it to when it did: a client-side cap."""
    sent_ns = result.requests.arrival_ns[rows] - _inbound_ns(result, rows)
    return sent_ns - result.requests.scheduled_ns[rows]


def prefill_ns(result: Result, rows: Ints) -> Ints:
    """First step to first token, pauses between chunks included."""
    return result.requests.first_token_ns[rows] - result.requests.first_start_ns[rows]


def stalled_ns(result: Result, rows: Ints) -> Ints:
    """Holding cache but in no step: what is left of the time in the engine after queue, active
    and preempted time."""
    log = result.requests
    rest = log.finish_ns[rows] - log.first_start_ns[rows]
    return rest - log.active_ns[rows] - log.preempted_ns[rows]


def tpot_ms(result: Result, rows: Ints) -> Floats:
    """(finish - first token) / (output tokens - 1); the rows must have two tokens or more."""
    log = result.requests
    decoding_ns = log.finish_ns[rows] - log.first_token_ns[rows]
    return decoding_ns / ((log.emitted_tokens[rows] - 1) * NS_PER_MS)


def norm_latency_ms(result: Result, rows: Ints) -> Floats:
    """E2E / output tokens; never called TPOT, which leaves the first token out."""
    return e2el_ns(result, rows) / (result.requests.emitted_tokens[rows] * NS_PER_MS)


def _inbound_ns(result: Result, rows: Ints) -> Ints:
    return result.client_delay.inbound(result.trace.prompt_tokens[rows])


def _outside_ns(result: Result, rows: Ints) -> Ints:
    return _inbound_ns(result, rows) + result.client_delay.response_ns


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency limits in ms, inclusive; None is no limit. A request is good if it meets all.

    Raises:
        ConfigError: a limit that is not a positive number.
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None
    itl_max_ms: float | None = None

    def __post_init__(self) -> None:
        for name, limit in self.limits().items():
            if not 0 < limit < float("inf"):
                raise ConfigError(f"SLO {name} is {limit}, must be above 0 ms and finite")

    def limits(self) -> dict[str, float]:
        """The limits that are set, by name."""
        each = {limit.name: getattr(self, limit.name) for limit in fields(self)}
        return {name: limit for name, limit in each.items() if limit is not None}

    def passes(self, result: Result, rows: Ints) -> dict[str, NDArray[np.bool_]]:
        """Limit -> which of these finished rows meet it, shape (k,).

        A one-token request has no TPOT and no gap: it meets those limits.
        """
        return {
            name: self._measured_ms(name, result, rows) <= limit
            for name, limit in self.limits().items()
        }

    def is_good(self, result: Result, rows: Ints) -> NDArray[np.bool_]:
        """Which of these finished rows meet every limit, shape (k,)."""
        good = np.ones(len(rows), dtype=np.bool_)
        for meets in self.passes(result, rows).values():
            good &= meets
        return good

    @staticmethod
    def _measured_ms(name: str, result: Result, rows: Ints) -> Floats:
        if name == "ttft_ms":
            return ttft_ns(result, rows) / NS_PER_MS
        if name == "e2el_ms":
            return e2el_ns(result, rows) / NS_PER_MS
        values = np.zeros(len(rows))
        if name == "itl_max_ms":
            gap_ns = result.requests.worst_gap_ns[rows]
            values[gap_ns != NOT_YET] = gap_ns[gap_ns != NOT_YET] / NS_PER_MS
        else:
            several = result.requests.emitted_tokens[rows] > 1
            values[several] = tpot_ms(result, rows[several])
        return values
