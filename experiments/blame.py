"""What a user's policy did wrong, as one line."""

from __future__ import annotations

import traceback
from pathlib import Path

from simulator.launch import Launcher
from simulator.plan import IDLE, Plan

_PLANS = {Launcher.launch.__code__: "plan", Launcher._rest_of.__code__: "part"}
"""Where the engine asks for a plan -> the name it has there."""


def blame(error: BaseException, file: Path | None = None) -> str:
    """An exception from a user's file as one line: what, and the line of that file it came from."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} at {error.filename}:{error.lineno}"
    original = _original(error)
    frames = traceback.extract_tb(original.__traceback__)
    own = [f for f in frames if file is None or Path(f.filename).resolve() == file.resolve()]
    place = f" at {file or own[-1].filename}:{own[-1].lineno}" if own else ""
    words = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{words}{place}"


def blame_run(error: BaseException, file: Path) -> str:
    """As `blame`, of a run with a user's policy; a plan that is none is told as such."""
    for frame, _ in traceback.walk_tb(_original(error).__traceback__):
        plan = frame.f_locals.get(_PLANS.get(frame.f_code, ""), IDLE)
        if not isinstance(plan, Plan):
            returned = "None" if plan is None else f"a {type(plan).__name__}"
            return f"plan() in {file} returned {returned}, must return a simulator.Plan"
    return blame(error, file)


def _original(error: BaseException) -> BaseException:
    """SimPy raises a copy of what a process raised; the original, with its lines, is the cause."""
    return error.__cause__ or error
