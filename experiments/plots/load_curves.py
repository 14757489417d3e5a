"""Averages over slices of time, exact: requests in a state, and a level that steps hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mean_count(enter_s: Floats, leave_s: Floats, edges_s: Floats) -> Floats:
    """How many stays [enter, leave) there are on average in each slice.

    edges_s: rising, shape (slices + 1,). NaN in `leave_s` is for ever.

    >>> mean_count(np.array([0.0, 1.0]), np.array([2.0, np.nan]), np.array([0.0, 2.0, 4.0]))
    array([1.5, 1. ])
    """
    area = _time_since(enter_s, edges_s) - _time_since(leave_s[~np.isnan(leave_s)], edges_s)
    return np.asarray(np.diff(area) / np.diff(edges_s), np.float64)


def mean_level(end_s: Floats, duration_s: Floats, level: Floats, edges_s: Floats) -> Floats:
    """Time average in each slice of a level that holds during steps and is 0 between them.

    end_s, duration_s, level: shape (steps,), steps in order.

    >>> mean_level(np.array([1.0, 4.0]), np.array([1.0, 2.0]), np.array([6.0, 3.0]),
    ...            np.array([0.0, 2.0, 4.0]))
    array([3., 3.])
    """
    knots = np.column_stack((end_s - duration_s, end_s)).ravel()
    grown = np.column_stack((np.zeros_like(level), level * duration_s)).ravel()
    area = np.interp(edges_s, knots, np.cumsum(grown), left=0.0)
    return np.asarray(np.diff(area) / np.diff(edges_s), np.float64)


def _time_since(times_s: Floats, edges_s: Floats) -> Floats:
    """Sum over times of how long ago each was, at every edge; those to come count 0."""
    ordered = np.sort(times_s)
    passed = np.searchsorted(ordered, edges_s)
    total = np.concatenate(([0.0], np.cumsum(ordered)))
    return np.asarray(passed * edges_s - total[passed], np.float64)
