"""What a sweep is asked to do: a base run and a grid of values over any of its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, flag_of, load_config

from .file import read_sweep_file
from .values import by_setting, swept_values

Values = Mapping[str, Any]
"""Setting -> value. Any because settings are numbers, texts, mappings or None."""

DEFAULT_GRID: Mapping[str, tuple[int | None, ...]] = {
    "chunk_size": (256, 512, 1024, 2048, None),
    "max_num_batched_tokens": (512, 2048, 8192),
}
"""What a sweep varies when nobody says."""


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the grid. values: swept setting -> value, in the order of the grid."""

    index: int
    values: Values


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A base run and the values that replace its settings, one point per combination.

    The last setting of the grid changes fastest.
    """

    base: Values
    grid: Mapping[str, tuple[Any, ...]]  # Any: values of any setting

    def __len__(self) -> int:
        return prod(len(values) for values in self.grid.values())

    def points(self) -> Iterator[Point]:
        """Every combination, in the order of the rows of the results.

        >>> spec = SweepSpec({}, {"rate": (4.0, 8.0), "chunk_size": (256, None)})
        >>> [tuple(point.values.values()) for point in spec.points()]
        [(4.0, 256), (4.0, None), (8.0, 256), (8.0, None)]
        """
        for index, values in enumerate(product(*self.grid.values())):
            yield Point(index, dict(zip(self.grid, values, strict=True)))

    def config(self, point: Point) -> RunConfig:
        """The run of a point.

        Raises:
            ConfigError: its values are not acceptable, alone or together.
        """
        return load_config(None, {**self.base, **point.values})


def load_spec(
    path: Path | None = None,
    base: Values | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,  # Any: values of any setting
) -> SweepSpec:
    """The sweep of a YAML file (`base:` and `grid:`), with flags on top; both may be left out.

    A flag replaces what the file says of that setting, in its base or its grid. Without any grid
    the sweep is `DEFAULT_GRID`, less the settings that the base fixes.

    Raises:
        ConfigError: an unknown setting (with the nearest name), a bad base value, an empty list
            or a value given twice. A bad value in the grid is no error: its points are `invalid`.
    """
    file_base, file_grid = read_sweep_file(path) if path else ({}, {})
    flag_base = by_setting(base or {}, flag_of)
    flag_grid = {
        name: swept_values(name, values, flag_of)
        for name, values in by_setting(grid or {}, flag_of).items()
    }
    varied = {k: v for k, v in file_grid.items() if k not in flag_base} | flag_grid
    fixed = {k: v for k, v in {**file_base, **flag_base}.items() if k not in varied}
    if not varied:
        varied = {name: values for name, values in DEFAULT_GRID.items() if name not in fixed}
    load_config(None, fixed)
    return SweepSpec(fixed, varied)


def split_flags(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Flags with one value (the base) and flags with several, comma between them (the grid).

    Only texts are split, and never one with `=` in it: that is a KEY=VALUE list of its own.
    Any: what the command line passes on: texts, truth values, lists of KEY=VALUE.

    >>> split_flags({"rate": "4,8", "trace": "a.csv", "slo": "ttft=1s,tpot=50ms"})
    ({'trace': 'a.csv', 'slo': 'ttft=1s,tpot=50ms'}, {'rate': ['4', '8']})
    """
    grid = {
        name: [value.strip() for value in text.split(",")]
        for name, text in flags.items()
        if isinstance(text, str) and "," in text and "=" not in text
    }
    return {name: value for name, value in flags.items() if name not in grid}, grid
