"""Replicated seeds: the same list at every point, so that points differ in settings alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.config import load_config
from simulator.errors import ConfigError

from .values import Label


def read_seeds(
    given: object,
    base: Mapping[str, Any],  # Any: values of any setting
    label: Label,
) -> tuple[int, ...]:
    """`5` is five seeds from the base's on; a list or `1,7,9` is those seeds; None is none.

    >>> read_seeds(3, {"seed": 10}, str), read_seeds("4,2", {}, str)
    ((10, 11, 12), (4, 2))

    Raises:
        ConfigError: neither, or a seed twice.
    """
    if given is None or given == ():
        return ()
    if isinstance(given, str) and "," in given:
        given = given.split(",")
    if not isinstance(given, (list, tuple)):
        first = load_config(None, {"seed": base.get("seed", 0)}).seed
        return tuple(range(first, first + _whole(given, 1, label)))
    seeds = tuple(_whole(seed, 0, label) for seed in given)
    if len({*seeds}) < len(seeds):
        raise ConfigError(f"{label('seeds')}: a seed is in the list twice: drop one")
    return seeds


def _whole(value: object, minimum: int, label: Label) -> int:
    text = str(value).strip()
    if not text.isdecimal() or int(text) < minimum:
        raise ConfigError(
            f"{label('seeds')} {value!r}: must be how many (at least 1), or a list of seeds"
        )
    return int(text)
