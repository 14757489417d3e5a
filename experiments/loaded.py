"""What a worker needs: loaded by the process that workers are forked from, and there to stay.

Nothing is looked through for garbage on the way. Frozen, its memory stays shared with the workers,
as `gc.freeze` is meant for, and the process ends at once.
"""

from __future__ import annotations

import gc
from importlib import import_module

MODULES = (
    "joblib.externals.loky.process_executor",
    "experiments.sweep.runner",
    "workloads.synthetic",
)

gc.disable()
for name in MODULES:
    import_module(name)
gc.freeze()
gc.enable()
