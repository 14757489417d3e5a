"""Runway's core: a discrete-event simulation of one LLM serving engine."""

from __future__ import annotations

from . import compiled  # first: it decides which form of the others is imported

# isort: split
from .client_delay import ClientDelay
from .cost_model import CostModel
from .errors import (
    BrokenPromiseError,
    ConfigError,
    InvalidPlanError,
    InvalidRequestError,
    OutsideTableError,
    RequestTooLargeError,
    RunwayError,
    SchedulerStalledError,
    SimulatorError,
    TableFormatError,
    WorkloadError,
)
from .kv_cache import KVCache
from .plan import ALL, NONE, Holds, Plan, StepShape
from .prefix_cache import PrefixCache
from .request import Request
from .result import Result, State
from .schedulers import (
    SCHEDULERS,
    AlternatingScheduler,
    ChunkedPrefillScheduler,
    ContinuousScheduler,
    Scheduler,
    StaticScheduler,
    VllmScheduler,
)
from .sequence import Sequence
from .simulation import simulate
from .trace import Trace
from .view import EngineView

__all__ = [
    "ALL",
    "NONE",
    "SCHEDULERS",
    "AlternatingScheduler",
    "BrokenPromiseError",
    "ChunkedPrefillScheduler",
    "ClientDelay",
    "ConfigError",
    "ContinuousScheduler",
    "CostModel",
    "EngineView",
    "Holds",
    "InvalidPlanError",
    "InvalidRequestError",
    "KVCache",
    "OutsideTableError",
    "Plan",
    "PrefixCache",
    "Request",
    "RequestTooLargeError",
    "Result",
    "RunwayError",
    "Scheduler",
    "SchedulerStalledError",
    "Sequence",
    "SimulatorError",
    "State",
    "StaticScheduler",
    "StepShape",
    "TableFormatError",
    "Trace",
    "VllmScheduler",
    "WorkloadError",
    "simulate",
]

compiled.document(KVCache, PrefixCache, Sequence, VllmScheduler)
