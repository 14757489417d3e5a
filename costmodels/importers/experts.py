"""Measured times of a layer's experts, by tokens and by how many experts they are sent to."""

from __future__ import annotations

from costmodels.curves import ONE_NS, Surface
from costmodels.operators_table import Operator
from simulator.errors import ConfigError

from .csv_rows import Row

COLUMNS = ("tokens", "activated_experts", "time_us")
FIRST_COUNTS = 64
"""Up to so many tokens every count is a point: how many experts they reach bends there."""

Rows = dict[int, list[tuple[int, float]]]


def experts_operator(rows: list[Row], gpus: int = 1) -> Operator:
    """Experts of one layer, spread over `gpus` that hold an equal part of them each.

    The count is the tokens of all GPUs together. Tokens choose their experts evenly and without
    regard to each other: of n experts, k a token, T tokens reach n (1 - (1 - k / n)^T). Between the
    measured (tokens, experts) it is bilinear; how many experts there are and how many a token
    chooses is read off the table.
    """
    times: Rows = {}
    for row in rows:
        reached, tokens, time_us = (
            *(row.whole("activated_experts"), row.whole("tokens")),
            row.number("time_us"),
        )
        times.setdefault(reached, []).append((tokens, time_us))
    experts, chosen = max(times), _chosen(rows)
    if experts % gpus:
        raise ConfigError(f"{rows[0].file}: {gpus} GPUs do not divide {experts} experts")
    surface = Surface({n: sorted(points) for n, points in times.items()}, grows=True)
    most = max(tokens for points in times.values() for tokens, _ in points)
    counts = [*range(1, FIRST_COUNTS), *range(FIRST_COUNTS, most * gpus + 1, FIRST_COUNTS // 4)]
    return Operator(
        axis="tokens",
        points=tuple(
            (tokens, _at(surface, tokens / gpus, _reached(tokens, experts, chosen) / gpus))
            for tokens in counts
        ),
    )


def _chosen(rows: list[Row]) -> int:
    """Experts that one token is sent to."""
    of_one = [row.whole("activated_experts") for row in rows if row.whole("tokens") == 1]
    if not of_one:
        raise ConfigError(
            f"{rows[0].file}: has no row of 1 token: how many experts does it choose?"
        )
    return min(of_one)


def _reached(tokens: int, experts: int, chosen: int) -> float:
    """
    >>> _reached(1, 128, 8), round(_reached(16, 128, 8), 1), round(_reached(256, 128, 8), 1)
    (8.0, 82.4, 128.0)
    """
    return float(experts * (1 - (1 - chosen / experts) ** tokens))


def _at(surface: Surface, tokens: float, experts: float) -> float:
    """Microseconds; linear between whole numbers of experts, as between those of tokens."""
    low = int(experts)
    share = experts - low
    whole = int(tokens)
    rest = tokens - whole

    def at(count: int) -> float:
        curve = surface.at(max(count, 1))
        below, above = curve.at(whole), curve.at(whole + 1)
        return (below + (above - below) * rest) / ONE_NS / 1000

    return float(f"{at(low) + (at(low + 1) - at(low)) * share:.6g}")
