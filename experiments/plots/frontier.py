"""Which points of a grid are worth a thought: the Pareto frontier of two costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pareto_frontier(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.intp]:
    """Rows no other row beats in both costs (smaller is better), by rising first cost.

    first, second: shape (n,); a row with a NaN is never on the frontier. Of rows with equal
    costs the earliest stands for all.

    >>> pareto_frontier(np.array([1.0, 2.0, 3.0, 2.0]), np.array([9.0, 5.0, 6.0, 5.0])).tolist()
    [0, 1]
    """
    order = np.lexsort((np.arange(len(first)), second, first))
    order = order[~(np.isnan(first[order]) | np.isnan(second[order]))]
    if len(order) == 0:
        return order
    best_before = np.concatenate(([np.inf], np.minimum.accumulate(second[order])[:-1]))
    return order[second[order] < best_before]
