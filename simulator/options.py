"""`EngineOptions`: how to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .leap import LONGEST_LEAP


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to run. Leaps, paths and checks do not change what comes out.

    leap: take identical steps at once; a number caps the steps of one leap.
    slow_path: walk all sequences in every step (a check of the aggregates).
    check_promises: step through every would-be leap and ask the scheduler each time.
    pipeline_depth: steps planned ahead; 1 sync, 2 async.
    stop_ns: no step that would end later is taken.
    progress: called now and then with the number of requests that have ended.
    """

    leap: bool | int = True
    slow_path: bool = False
    check_promises: bool = False
    pipeline_depth: int = 1
    max_model_len: int | None = None
    stop_ns: int | None = None
    progress: Callable[[int], None] | None = None

    @property
    def longest_leap(self) -> int:
        """Steps that one leap may take."""
        if self.slow_path or self.leap is False:
            return 1
        return LONGEST_LEAP if self.leap is True else max(1, int(self.leap))
