"""How far interpolation is off on a published grid: points predicted from the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from costmodels.curves import ONE_NS, Surface, curve_through
from costmodels.operators_table import OperatorGrids
from costmodels.yaml_text import Value
from simulator.errors import ConfigError

SHARE = 0.15
SEED = 0
SPLIT = (
    f"random {SHARE:.0%} of the inner grid points, seed {SEED}, predicted from the others; "
    "the table itself keeps all"
)


def held_out_errors(grids: OperatorGrids) -> dict[str, Value]:
    """The `held_out` section: |predicted - measured| / measured of interpolated points.

    The ends of a grid stay, so this is the error between measured points and not beyond them.
    """
    random = np.random.Generator(np.random.PCG64(SEED))
    errors = [
        error
        for operator in grids.counted.values()
        for error in _curve_errors(operator.points, random)
    ]
    chunks = [point for point in grids.attention if not point[2]]
    decodes = [point for point in grids.attention if not point[0]]
    mixed = [point for point in grids.attention if point[0] and point[2]]
    errors += _surface_errors([(new, past, us) for new, past, _, _, us in chunks], random)
    errors += _surface_errors([(seqs, context, us) for _, _, seqs, context, us in decodes], random)
    for chunk in sorted({point[0] for point in mixed}):
        rows = [(seqs, context, us) for new, _, seqs, context, us in mixed if new == chunk]
        errors += _surface_errors(rows, random)
    if not errors:
        raise ConfigError("every grid has fewer than 3 points: too few to say how far it is off")
    summary: dict[str, Value] = {"split": SPLIT, "n": len(errors)}
    for name, value in (
        ("mean", float(np.mean(errors))),
        ("median", float(np.median(errors))),
        ("p90", float(np.quantile(errors, 0.9))),
    ):
        summary[name] = float(f"{value:.6g}")
    return summary


def _curve_errors(
    points: tuple[tuple[int, float], ...], random: np.random.Generator
) -> Iterable[float]:
    out = _chosen(len(points), random)
    if not out:
        return []
    curve = curve_through([p for i, p in enumerate(points) if i not in out], grows=True)
    return [_error(curve.at(count), us) for count, us in (points[i] for i in out) if us]


def _surface_errors(
    points: list[tuple[int, int, float]], random: np.random.Generator
) -> list[float]:
    """Inner rows are left out whole: the harder direction to interpolate, and the rarer grid."""
    rows: dict[int, list[tuple[int, float]]] = {}
    for first, second, us in points:
        rows.setdefault(first, []).append((second, us))
    firsts = sorted(rows)
    out = {firsts[i] for i in _chosen(len(firsts), random)}
    if not out:
        return []
    kept = Surface({first: row for first, row in rows.items() if first not in out}, grows=True)
    return [
        _error(kept.at(first).at(second), us)
        for first in sorted(out)
        for second, us in rows[first]
        if us and second <= kept.at(first).limit
    ]


def _chosen(count: int, random: np.random.Generator) -> list[int]:
    """Indices to hold out, never the first or the last; one of a grid of three or more."""
    if count < 3:
        return []
    chosen = random.choice(np.arange(1, count - 1), max(round(SHARE * count), 1), replace=False)
    return sorted(int(i) for i in chosen)


def _error(predicted: int, measured_us: float) -> float:
    return abs(predicted / ONE_NS / 1000 - measured_us) / measured_us
