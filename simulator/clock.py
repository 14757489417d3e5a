"""`EngineClock`: one engine's alarm in a SimPy environment.

An engine waits for one thing at a time, so one event serves for the whole run: it is set, rings,
and is set again. A `simpy.Process` that yields a new `simpy.Timeout` each time costs twice as much.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Protocol

import simpy


class Clock(Protocol):
    """What an engine needs of time, which is an integer of nanoseconds."""

    @property
    def now(self) -> int:
        """The instant, ns."""

    def timeout(self, delay: int) -> simpy.Event | None:
        """Come back in `delay` ns: what the engine's process yields."""


class EngineClock:
    """Runs an engine's process in a SimPy environment, with one event.

    >>> env, seen = simpy.Environment(), []
    >>> clock = EngineClock(env)
    >>> def process():
    ...     for delay in (5, 7):
    ...         yield clock.timeout(delay)
    ...         seen.append(clock.now)
    >>> clock.start(process())
    >>> env.run()
    >>> seen
    [5, 12]
    """

    __slots__ = ("_alarm", "_env", "_rings", "_schedule")

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._alarm = simpy.Event(env)
        self._alarm._ok, self._alarm._value = True, None  # as a Timeout is born
        self._rings: list[Callable[[simpy.Event], Any]] = []  # Any: SimPy ignores what they return
        self._schedule = env.schedule

    def start(self, process: Generator[simpy.Event | None, None, None]) -> None:
        """Go on with the process whenever the alarm rings, the first time at once."""
        # The event that SimPy passes is what `next` returns, instead of raising, at the end.
        self._rings.append(partial(next, process))
        self.timeout(0)

    @property
    def now(self) -> int:
        """The instant, ns."""
        return self._env.now  # type: ignore[return-value]  # an int if all delays are

    def timeout(self, delay: int) -> None:
        """Ring `delay` ns from now."""
        self._alarm.callbacks = self._rings
        self._schedule(self._alarm, delay=delay)
