"""The policies that ship with Runway, by name. One file each, its source named on top."""

from __future__ import annotations

from simulator.view import Scheduler

from .alternating import AlternatingScheduler
from .chunked import ChunkedPrefillScheduler
from .continuous import ContinuousScheduler
from .dynamic import DynamicChunkScheduler
from .edf import EdfScheduler
from .fair import FairScheduler
from .sglang import SglangScheduler
from .sjf import SjfScheduler
from .static import StaticScheduler
from .vllm import VllmScheduler

SCHEDULERS: dict[str, type[Scheduler]] = {
    "static": StaticScheduler,
    "continuous": ContinuousScheduler,
    "chunked": ChunkedPrefillScheduler,
    "alternating": AlternatingScheduler,
    "vllm": VllmScheduler,
    "sglang": SglangScheduler,
    "dynamic": DynamicChunkScheduler,
    "sjf": SjfScheduler,
    "fair": FairScheduler,
    "edf": EdfScheduler,
}
"""Name -> class. A policy's parameters are its constructor's."""

__all__ = [
    "SCHEDULERS",
    "AlternatingScheduler",
    "ChunkedPrefillScheduler",
    "ContinuousScheduler",
    "DynamicChunkScheduler",
    "EdfScheduler",
    "FairScheduler",
    "Scheduler",
    "SglangScheduler",
    "SjfScheduler",
    "StaticScheduler",
    "VllmScheduler",
]
