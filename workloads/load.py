"""Open and closed loops: what decides when the next request is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simulator.errors import WorkloadError, nearest
from simulator.units import seconds_to_ns

from .arrivals import Ints, all_at_once, constant, gamma, on_off, poisson
from .limits import at_least, shortest

ARRIVALS: dict[str, str] = {
    "poisson": "exponential gaps with mean 1/rate",
    "gamma": "gamma gaps with mean 1/rate and shape burstiness (1 Poisson, below 1 burstier)",
    "constant": "one request every 1/rate seconds",
    "on-off": "Poisson bursts of on_s seconds, off_s seconds apart, mean rate kept",
    "all-at-once": "everything at t=0; takes no rate",
}
"""Arrival process -> one-line description."""


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests are sent at their times, however slow the service is.

    Raises:
        WorkloadError: an unknown process, or a setting it lacks or does not take.
    """

    arrival: str
    rate: float | None
    burstiness: float = 1.0
    on_s: float | None = None
    off_s: float | None = None

    def __post_init__(self) -> None:
        name, bursts = self.arrival, (self.on_s, self.off_s)
        if name not in ARRIVALS:
            known = ", ".join(ARRIVALS)
            raise WorkloadError(f"unknown arrival {name!r}{nearest(name, ARRIVALS)}: {known}")
        if self.burstiness != 1.0 and name != "gamma":
            raise WorkloadError(f"burstiness {self.burstiness} needs arrival gamma, not {name}")
        if name == "on-off" and None in bursts:
            raise WorkloadError("arrival on-off needs on_s and off_s, both in seconds")
        if name != "on-off" and bursts != (None, None):
            raise WorkloadError(f"on_s and off_s are for arrival on-off, not {name}")
        if name == "all-at-once" and self.rate is not None:
            raise WorkloadError(f"rate {self.rate} means nothing for all-at-once: drop one of them")
        if name != "all-at-once" and self.rate is None:
            raise WorkloadError(f"arrival {name} needs a rate, in requests per second")

    def arrival_ns(self, requests: int, seed: int) -> Ints:
        """int64 nanoseconds, shape (requests,), ascending."""
        rate, on_s, off_s = self.rate or 0.0, self.on_s or 0.0, self.off_s or 0.0
        processes: dict[str, Callable[[], Ints]] = {
            "poisson": lambda: poisson(requests, rate, seed),
            "gamma": lambda: gamma(requests, rate, self.burstiness, seed),
            "constant": lambda: constant(requests, rate),
            "on-off": lambda: on_off(requests, rate, on_s, off_s, seed),
            "all-at-once": lambda: all_at_once(requests),
        }
        return processes[self.arrival]()

    def think_ns(self, requests: int, rng: np.random.Generator) -> Ints | None:
        """None: nobody waits for an answer before sending."""
        return None

    def __str__(self) -> str:
        parts = [f"arrival={self.arrival}"]
        if self.rate is not None:
            parts.append(f"rate={shortest(self.rate)}")
        if self.arrival == "gamma":
            parts.append(f"burstiness={shortest(self.burstiness)}")
        if self.arrival == "on-off":
            parts.append(f"on_s={shortest(self.on_s or 0)}, off_s={shortest(self.off_s or 0)}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Each user sends its next request a think time after its last one finished.

    Raises:
        WorkloadError: no users, a negative think time, or an unknown kind of it.
    """

    users: int
    think_time_s: float = 0.0
    think: str = "fixed"

    def __post_init__(self) -> None:
        at_least("users", self.users, 1)
        if not 0 <= self.think_time_s < float("inf"):
            raise WorkloadError(
                f"think_time_s {self.think_time_s} must be a finite number of at least 0"
            )
        if self.think not in ("fixed", "exponential"):
            raise WorkloadError(f"think {self.think!r} must be fixed or exponential")

    def arrival_ns(self, requests: int, seed: int) -> Ints:
        """All 0, shape (requests,): the engine sends each row when its user is ready."""
        return all_at_once(requests)

    def think_ns(self, requests: int, rng: np.random.Generator) -> Ints:
        """int64 nanoseconds, shape (requests,); the first row of each user has no pause."""
        mean_ns = seconds_to_ns(self.think_time_s)
        pauses = np.full(requests, mean_ns, dtype=np.int64)
        if self.think == "exponential":
            pauses = np.rint(rng.standard_exponential(requests) * mean_ns).astype(np.int64)
        pauses[: self.users] = 0
        return pauses

    def __str__(self) -> str:
        return f"users={self.users}, think_time_s={shortest(self.think_time_s)}, think={self.think}"
