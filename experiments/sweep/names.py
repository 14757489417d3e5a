"""Names in a sweep that nothing has: they are refused before anything is simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import workloads
from costmodels import find_gpu, find_model, load_cost_model
from costmodels.loading import is_published
from experiments.config import flag_of
from experiments.policies import scheduler_class
from experiments.workload import BUNDLED
from simulator.errors import ConfigError, RunwayError, TableFormatError, nearest

from .spec import SweepSpec


def refuse_unknown_names(spec: SweepSpec) -> None:
    """Look up every name that the sweep varies; what is in a file is left to its points.

    Raises:
        ConfigError: there is no such scheduler, cost model, workload or device, or a text that
            describes lengths says nothing.
    """
    varied = [name for name in _LOOK_UP if name in spec.varied]
    if not varied:
        return
    found = {(name, point.values[name]) for point in spec.points() for name in varied}
    for name, value in sorted((name, held) for name, held in found if isinstance(held, str)):
        try:
            _LOOK_UP[name](value)
        except RunwayError as error:
            raise ConfigError(f"{flag_of(name)}: {error}") from None


def _scheduler(name: str) -> None:
    if ".py:" not in name:
        scheduler_class(name)


def _cost_model(name: str) -> None:
    if name != "roofline" and not is_published(name):
        with suppress(TableFormatError):
            load_cost_model(name)


def _model(name: str) -> None:
    if not name.endswith(".json"):
        find_model(name)


def _workload(name: str) -> None:
    if name != BUNDLED:
        workloads.bundled_trace(name)


def _preset(name: str) -> None:
    workloads.preset(name, requests=1)


def _format(name: str) -> None:
    from workloads.formats import KNOWN

    if name not in KNOWN:
        raise ConfigError(
            f"unknown trace format {name!r}{nearest(name, KNOWN)}: {', '.join(KNOWN)}"
        )


def _lengths(text: str) -> None:
    if not text.startswith("empirical:"):
        workloads.parse_lengths(text)


def _predictor(text: str) -> None:
    workloads.predict_outputs(workloads.bundled_trace(), text)


_LOOK_UP: Mapping[str, Callable[[str], object]] = {
    "scheduler": _scheduler,
    "cost_model": _cost_model,
    "model": _model,
    "device": find_gpu,
    "workload": _workload,
    "preset": _preset,
    "format": _format,
    "input_tokens": _lengths,
    "output_tokens": _lengths,
    "predict_outputs": _predictor,
}
"""Setting -> what raises for a name that is unknown."""
