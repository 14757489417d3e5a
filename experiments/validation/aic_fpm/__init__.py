"""NVIDIA AIConfigurator's "forward pass metrics" of vLLM: every step and request of a closed loop.

For each run found: the step sequence with measured step times fed in, and step, E2E and makespan
errors with prices fitted to its `sweep` segment, to that and the first steps of `real`, and to
every other step. Nothing is fitted to a step that is tested, nor to any request.
"""

from __future__ import annotations

from pathlib import Path

from experiments.validation.report import DatasetReport, Row, Samples
from simulator.errors import ConfigError

from .prices import gpu_of, sizes_of
from .rows import compare_run
from .runs import names_of, read_run

SOURCE = (
    "github.com/ai-dynamo/aiconfigurator, branch dev-layerwise-collector, fpm_golden_runs "
    "(Apache-2.0, NVIDIA, June 2026): vLLM 0.20.1 on B300, 32 clients, 128 requests"
)

FORMS = (
    "no coefficient is fitted to a step or request that is tested, but the form of the terms "
    "(waves of attention, continued prompts, steps beyond the captured graphs, experts read by a "
    "batch), the assumed 64 bytes a clock and the fit's few constants were settled while errors of "
    "Qwen3-32B TP1/2/4 and Qwen3.6-35B-A3B TP1/2 were in view, test parts included: other runs are "
    "the blind test"
)
"""What was known of these recordings when the model was made."""


def recognises(folder: Path) -> bool:
    """Are there runs with a step log and requests?"""
    return bool(names_of(folder))


def validate(folder: Path) -> DatasetReport:
    """Compare every run of the folder.

    Raises:
        ConfigError: no run, or a file that is not of this format.
    """
    names = names_of(folder)
    if not names:
        raise ConfigError(f"{folder}: no <model>_tp<N>_ep<N>.steps.csv.gz with its requests")
    gpu, known = gpu_of(folder)
    rows: list[Row] = []
    samples: list[Samples] = []
    notes = [FORMS, f"GPU: {known}"]
    for name in names:
        run = read_run(folder, name)
        if sizes_of(run.model) is None:
            notes.append(f"{name}: sizes of {run.model} are not known: no term is tied to them")
        found = compare_run(run, gpu)
        rows += found.rows
        samples += found.samples
        notes += found.notes
    return DatasetReport("aic_fpm", SOURCE, tuple(rows), tuple(samples), tuple(notes))
