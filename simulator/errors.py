"""Every error Runway raises on purpose, as a tree.

    RunwayError                      anything a caller may want to catch
    ├── ConfigError                  an option or key is wrong (also a ValueError)
    ├── WorkloadError                a trace file or generator is wrong (also a ValueError)
    ├── TableFormatError             a cost table is malformed or unproven (also a ValueError)
    └── SimulatorError               the run itself went wrong
        ├── InvalidRequestError      a request no engine could serve (also a ValueError)
        ├── RequestTooLargeError     a request that can never fit; said on arrival
        ├── InvalidPlanError         a plan breaks budget or memory, or takes a strange sequence
        ├── SchedulerStalledError    work is waiting, nothing runs and nothing will change that
        ├── BrokenPromiseError       a plan did not stay right for as long as it said
        └── OutsideTableError        a cost table was asked beyond what it measured

A message names the thing, its value, the limit and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from operator import index


class RunwayError(Exception):
    """Anything Runway raises on purpose; the command line prints it and exits with 2."""


class ConfigError(RunwayError, ValueError):
    """An option or key is wrong."""


class WorkloadError(RunwayError, ValueError):
    """A trace file or a generator setting is wrong."""


class TableFormatError(RunwayError, ValueError):
    """A cost table is malformed or lacks provenance."""


class SimulatorError(RunwayError):
    """The run itself went wrong."""


class InvalidRequestError(SimulatorError, ValueError):
    """A request that no engine could serve (no tokens, negative arrival)."""


class RequestTooLargeError(SimulatorError):
    """A request that can never fit the cache or the model length."""


class InvalidPlanError(SimulatorError):
    """A scheduler's plan breaks the token budget, the memory or names a strange sequence."""


class SchedulerStalledError(SimulatorError):
    """Requests are waiting, nothing runs, and nothing will ever change that."""


class BrokenPromiseError(SimulatorError):
    """A plan did not stay right for as long as it promised to hold."""


class OutsideTableError(SimulatorError):
    """A cost table was asked for a shape it never measured."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A ', did you mean …?' for a misspelt name, or nothing when no name is near.

    >>> nearest("chunksize", ["chunk_size", "block_size"])
    ', did you mean chunk_size?'
    >>> nearest("zzz", ["chunk_size"])
    ''
    """
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f", did you mean {matches[0]}?" if matches else ""


def whole(name: str, value: object) -> int:
    """A whole number of any kind (NumPy's too) as Python's, which the engine calculates with.

    Raises:
        ConfigError: it is none.
    """
    try:
        return index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        raise ConfigError(f"{name} is {value!r}, must be a whole number") from None
