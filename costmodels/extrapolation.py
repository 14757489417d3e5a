"""What to do, and to say, about a price beyond the largest measured point."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from simulator.errors import ConfigError, OutsideTableError, nearest

MODES = ("linear", "clamp", "error")


class ExtrapolationWarning(UserWarning):
    """A cost table was asked beyond what it measured."""


class Beyond(NamedTuple):
    """An axis, what was asked of it, and its measured range."""

    axis: str
    asked: float
    lowest: int
    highest: int

    def __str__(self) -> str:
        return f"{self.axis} {self.asked:g} (measured {self.lowest:,} to {self.highest:,})"


class Extrapolation:
    """Counts what was priced beyond a table; warns once, or refuses (mode `error`).

    mode: `linear`, `clamp` or `error`; name: of the table, for messages.
    """

    __slots__ = ("_farthest", "_name", "_ns", "_steps", "mode")

    def __init__(self, mode: str, name: str) -> None:
        if mode not in MODES:
            raise ConfigError(
                f"extrapolation {mode!r} is unknown{nearest(mode, MODES)} "
                f"(known: {', '.join(MODES)})"
            )
        self.mode = mode
        self._name = name
        self._steps = self._ns = 0
        self._farthest: dict[str, Beyond] = {}

    def count(self, beyond: Sequence[Beyond], steps: int, price_ns: int) -> None:
        """Some steps lie beyond; OutsideTableError in mode `error`.

        beyond: the axes that do; price_ns: of these steps together.
        """
        asked = "; ".join(map(str, beyond))
        if self.mode == "error":
            raise OutsideTableError(
                f"cost table {self._name!r} was asked for {asked}: measure further, keep the load "
                "within it, or choose extrapolation 'linear' or 'clamp'"
            )
        if not self._steps:
            warnings.warn(
                f"cost table {self._name!r} is asked beyond what it measured, first for {asked}; "
                f"extrapolation is {self.mode!r}",
                ExtrapolationWarning,
                stacklevel=4,
            )
        self._steps += steps
        self._ns += price_ns
        for axis in beyond:
            seen = self._farthest.get(axis.axis)
            if seen is None or axis.asked > seen.asked:
                self._farthest[axis.axis] = axis

    def report(self, steps: int | None, time_ms: float | None) -> dict[str, object]:
        """See `OperatorsCostModel.extrapolation_report`."""
        outside_ms = self._ns / 1e6
        return {
            "extrapolation": self.mode,
            "outside_steps": self._steps,
            "outside_ms": outside_ms,
            "share_of_steps": self._steps / steps if steps else None,
            "share_of_time": outside_ms / time_ms if time_ms else None,
            "farthest": {
                beyond.axis: {"asked": beyond.asked, "measured": [beyond.lowest, beyond.highest]}
                for beyond in self._farthest.values()
            },
        }
