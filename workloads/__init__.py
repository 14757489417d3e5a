"""Workloads: traces read from files, requests generated from a seed, and transforms of both.

Every public name is loaded on first use, so asking for the names of formats or presets does
not load NumPy's random generators or pyarrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .bundle import BUNDLED as BUNDLED
    from .bundle import bundled_trace as bundled_trace
    from .bundle import generate_bundled as generate_bundled
    from .formats import FIELDS as FIELDS
    from .formats import FORMATS as FORMATS
    from .lengths import LENGTHS as LENGTHS
    from .lengths import Empirical as Empirical
    from .lengths import Fixed as Fixed
    from .lengths import Lengths as Lengths
    from .lengths import LogNormal as LogNormal
    from .lengths import Uniform as Uniform
    from .lengths import parse_lengths as parse_lengths
    from .pauses import PAUSES as PAUSES
    from .pauses import Pauses as Pauses
    from .pauses import parse_pauses as parse_pauses
    from .predictions import PREDICTIONS as PREDICTIONS
    from .predictions import predict_outputs as predict_outputs
    from .presets import PRESETS as PRESETS
    from .presets import Preset as Preset
    from .presets import preset as preset
    from .readers import read_trace as read_trace
    from .saved import write_trace as write_trace
    from .sessions import generate_sessions as generate_sessions
    from .synthetic import ARRIVALS as ARRIVALS
    from .synthetic import generate as generate
    from .tenants import merge as merge
    from .transforms import at_rate as at_rate
    from .transforms import clip_lengths as clip_lengths
    from .transforms import filter_lengths as filter_lengths
    from .transforms import head as head
    from .transforms import scale_rate as scale_rate
    from .transforms import scale_time as scale_time
    from .transforms import spread_ties as spread_ties
    from .transforms import window as window
    from .transforms import with_arrivals as with_arrivals

_MODULES = {
    "bundle": "BUNDLED bundled_trace generate_bundled",
    "formats": "FIELDS FORMATS",
    "synthetic": "ARRIVALS generate",
    "lengths": "LENGTHS Empirical Fixed Lengths LogNormal Uniform parse_lengths",
    "pauses": "PAUSES Pauses parse_pauses",
    "predictions": "PREDICTIONS predict_outputs",
    "presets": "PRESETS Preset preset",
    "readers": "read_trace",
    "saved": "write_trace",
    "sessions": "generate_sessions",
    "tenants": "merge",
    "transforms": "at_rate clip_lengths filter_lengths head scale_rate scale_time spread_ties"
    " window with_arrivals",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
