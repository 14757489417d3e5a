"""Sweeps: a grid over any settings of a run, one row of results per point."""

from .runner import SweepOutcome, run_sweep
from .spec import SweepSpec, load_spec, split_flags

__all__ = ["SweepOutcome", "SweepSpec", "load_spec", "run_sweep", "split_flags"]
