"""Check mode: step through every would-be leap and ask the scheduler again each time."""

from __future__ import annotations

from .errors import BrokenPromiseError
from .plan import Decode, Plan
from .view import EngineView, Scheduler


class Promise:
    """What the last plan promised: everybody decodes for `steps_left` more steps."""

    __slots__ = ("_plan", "_scheduler", "_step", "_steps_left")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._steps_left = 0
        self._step = 0
        self._plan: Plan | None = None

    def made(self, plan: Plan, steps: int) -> None:
        """The plan would leap so many steps; only the first is taken, the rest was promised."""
        if self._steps_left == 0:
            self._steps_left = steps
            self._plan = plan

    def check(self, plan: Plan, view: EngineView) -> None:
        """Raise if the scheduler now wants something else than it promised.

        Raises:
            BrokenPromiseError: names the policy, the step and the two plans.
        """
        self._step += 1
        self._steps_left = max(0, self._steps_left - 1)
        if self._steps_left == 0:
            return
        everybody = plan.decode is Decode.ALL or (
            isinstance(plan.decode, tuple) and len(plan.decode) == len(view.decoding)
        )
        if not everybody or plan.prefill or plan.preempt or plan.more:
            raise BrokenPromiseError(
                f"{type(self._scheduler).__name__} broke its promise at plan {self._step}: "
                f"{self._plan} was to hold for {self._steps_left} more steps, now it wants "
                f"{plan}; return holds=Holds.ONE_STEP (the default)"
            )
