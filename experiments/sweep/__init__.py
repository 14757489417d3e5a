"""Sweeps over any settings of a run: grids, variants, samples; one row of results per point."""

from .backends import BACKENDS
from .file import Asked
from .runner import SweepOutcome, run_sweep
from .spec import SweepSpec, asked_by_flags, load_spec, split_flags

__all__ = [
    "BACKENDS",
    "Asked",
    "SweepOutcome",
    "SweepSpec",
    "asked_by_flags",
    "load_spec",
    "run_sweep",
    "split_flags",
]
