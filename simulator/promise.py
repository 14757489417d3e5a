"""Check mode: step through every would-be leap and ask the scheduler again each time."""

from __future__ import annotations

from .errors import BrokenPromiseError
from .plan import Decode, Holds, Plan
from .view import EngineView, Scheduler


class Promise:
    """What the last plan promised: everybody decodes for `steps_left` more steps."""

    __slots__ = ("_alone", "_plan", "_scheduler", "_step", "_steps_left")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._steps_left = 0
        self._step = 0
        self._plan: Plan | None = None
        self._alone = False

    def made(self, plan: Plan, steps: int) -> None:
        """The plan would leap so many steps; only the first is taken, the rest was promised."""
        if self._steps_left == 0:
            self._steps_left = steps
            self._plan = plan
            self._alone = plan.holds is Holds.WHILE_ALONE

    def check(self, plan: Plan, view: EngineView) -> None:
        """Raise if the scheduler now wants something else than it promised.

        Raises:
            BrokenPromiseError: names the policy, the step and the two plans.
        """
        self._step += 1
        self._steps_left = max(0, self._steps_left - 1)
        if not self._steps_left and not (self._alone and _nothing_happened(view)):
            return
        everybody = plan.decode is Decode.ALL or (
            isinstance(plan.decode, tuple) and len(plan.decode) == len(view.decoding)
        )
        if not everybody or plan.prefill or plan.preempt or plan.more:
            raise BrokenPromiseError(
                f"{type(self._scheduler).__name__} broke its promise at plan {self._step}: "
                f"{self._plan} was to hold for {self._steps_left or 'some'} more steps, now it "
                f"wants {plan}; return holds=Holds.ONE_STEP (the default)"
            )


def _nothing_happened(view: EngineView) -> bool:
    """Whether somebody still decodes, with blocks for it, and nobody came to ask for anything."""
    pool = view.decoding
    asked = view.waiting or view.prefilling
    return bool(pool.size) and pool.growth_blocks <= view.kv.free_blocks and not asked
