"""The policies that ship with Runway, by name. One file each, its source named on top."""

from __future__ import annotations

from simulator.view import Scheduler

from .alternating import AlternatingScheduler
from .chunked import ChunkedPrefillScheduler
from .continuous import ContinuousScheduler
from .static import StaticScheduler

SCHEDULERS: dict[str, type[Scheduler]] = {
    "static": StaticScheduler,
    "continuous": ContinuousScheduler,
    "chunked": ChunkedPrefillScheduler,
    "alternating": AlternatingScheduler,
}
"""Name -> class. A policy's parameters are its constructor's."""

__all__ = [
    "SCHEDULERS",
    "AlternatingScheduler",
    "ChunkedPrefillScheduler",
    "ContinuousScheduler",
    "Scheduler",
    "StaticScheduler",
]
