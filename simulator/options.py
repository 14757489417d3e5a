"""`EngineOptions`: how to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .errors import ConfigError, whole
from .leap import LONGEST_LEAP


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How to run. Leaps, paths and checks do not change what comes out.

    leap: take identical steps at once; a number caps the steps of one leap.
    slow_path: walk all sequences in every step (a check of the aggregates).
    check_promises: step through every would-be leap and ask the scheduler each time.
    pipeline_depth: steps planned ahead; 1 sync, 2 async.
    stop_ns: no step that would end later is taken.
    max_model_len: longer requests (prompt + output) are rejected on arrival.
    never_fits: what becomes of a request that the empty cache could not hold: "reject" on arrival,
        or "wait" in the queue and block it, as in vLLM; the run then ends with what never will.
    swap_ns_per_block: preempt by moving KV blocks to host memory instead of recomputing them; each
        block costs so much of a step, on the way out and back. None: recompute.
    progress: called now and then with the number of requests that have ended.
    """

    leap: bool | int = True
    slow_path: bool = False
    check_promises: bool = False
    pipeline_depth: int = 1
    max_model_len: int | None = None
    stop_ns: int | None = None
    never_fits: Literal["reject", "wait"] = "reject"
    swap_ns_per_block: int | None = None
    progress: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        if self.never_fits not in ("reject", "wait"):
            raise ConfigError(f"never_fits is {self.never_fits!r}, must be reject or wait")
        for name in ("pipeline_depth", "max_model_len", "stop_ns", "swap_ns_per_block"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else whole(name, value))
        if self.swap_ns_per_block is not None and self.swap_ns_per_block < 0:
            raise ConfigError(f"swap_ns_per_block is {self.swap_ns_per_block}, must be 0 or more")

    @property
    def longest_leap(self) -> int:
        """Steps that one leap may take."""
        if self.slow_path or self.leap is False:
            return 1
        return LONGEST_LEAP if self.leap is True else max(1, int(self.leap))
