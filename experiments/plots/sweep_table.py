"""A saved sweep as the figures see it: rows, swept fields, and who gets which colour or panel."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.saved_files import SWEEP, saved_table
from experiments.sweep import load_spec
from experiments.yaml_file import read_yaml
from simulator.errors import ConfigError

from .style import level_label, palette, short_label, value_label

PROMINENCE = (
    *("variant", "max_num_batched_tokens", "chunk_size", "scheduler", "max_num_seqs", "rate"),
)
"""Which swept field gets the colours first; fields not named here come last."""

_OUTCOME = ("ttft_ms_mean", "tpot_ms_mean", "e2el_ms_mean", "output_throughput")
"""Two runs that agree in these did the same."""

Level = Any
"""A swept value: Any because a sweep may run over any field (int, float, text or None)."""

Row = Mapping[Hashable, Any]
"""A point's columns by name. Any: numbers, texts, truth values or None."""


@dataclass(frozen=True, slots=True, eq=False)
class SweepTable:
    """The points of a sweep and what is common to them.

    frame: `sweep.parquet`, a row a point, with the swept values as asked.
    grid: swept field -> its values in the order asked.
    slo: limit name (`ttft_ms`, `tpot_ms`, `e2el_ms`, `itl_max_ms`) -> milliseconds.
    setting: one line that says what was simulated.
    sampled: fields whose values were drawn, at most one point a value.
    seeds: runs of each point; of several the numbers are means.
    """

    frame: pd.DataFrame
    grid: Mapping[str, Sequence[Level]]
    slo: Mapping[str, float]
    setting: str
    sampled: tuple[str, ...] = ()
    seeds: int = 1

    @property
    def swept(self) -> tuple[str, ...]:
        """Fields with more than one value, the most prominent first."""
        many = [field for field, values in self.grid.items() if len(values) > 1]
        known = [field for field in PROMINENCE if field in many]
        return (*known, *(field for field in many if field not in known))

    @property
    def measured(self) -> pd.DataFrame:
        """The points that ran."""
        return self.frame[self.frame["status"] == "ok"]

    def levels(self, field: str) -> list[Level]:
        """A field's values in reading order: numbers rising, then none, then texts as asked."""
        values = list(dict.fromkeys(self.grid[field]))
        numbers = sorted(value for value in values if _is_number(value))
        nones = [None] if None in values else []
        return numbers + nones + [v for v in values if v is not None and not _is_number(v)]

    def measured_levels(self, field: str) -> list[Level]:
        """Of those, the values some point ran with."""
        ran = self.measured
        return [level for level in self.levels(field) if len(self.where({field: level}, ran))]

    def colours(self, field: str) -> dict[Level, str]:
        """A field's colours: the same in every figure of the sweep."""
        levels = self.levels(field)
        return dict(zip(levels, palette(len(levels)), strict=True))

    def where(self, chosen: Mapping[str, Level], frame: pd.DataFrame | None = None) -> pd.DataFrame:
        """The rows at these values of the swept fields (a None matches a missing value)."""
        rows = self.frame if frame is None else frame
        for field, value in chosen.items():
            column = rows[field]
            rows = rows[column.isna() if value is None else column == value]
        return rows

    def matters(self, row: Row, field: str) -> bool:
        """False if a point's outcome is the same for every value of this field."""
        others = {name: row[name] for name in self.swept if name != field}
        alike = self.where(others, self.measured)
        return any(alike[column].nunique() > 1 for column in _OUTCOME)

    def is_named(self, field: str) -> bool:
        """Whether some of the values that ran are texts, such as schedulers."""
        return any(isinstance(level, str) for level in self.measured_levels(field))

    def facets(self, field: str, at_most: int, *, names: int = 0) -> list[Level]:
        """The values that get a panel: all that ran, or `at_most` spread evenly over them.

        names: at most so many if they are texts, such as schedulers: none lies between two others.
        """
        every = self.measured_levels(field)
        if self.is_named(field):
            at_most = max(at_most, names)
        if len(every) <= at_most:
            return every
        return [every[round(i * (len(every) - 1) / (at_most - 1))] for i in range(at_most)]

    def means_in_words(self) -> str:
        """That the numbers are means, if every point was run with several seeds; else empty."""
        return f"Every number is the mean over {self.seeds} seeds." if self.seeds > 1 else ""

    def thinned_in_words(self, shown: Mapping[str, Sequence[Level]]) -> str:
        """Which values a figure shows, of fields of which it does not show all; else empty."""
        told = []
        for field, levels in shown.items():
            every = self.measured_levels(field)
            if len(levels) < len(every):
                values = ", ".join(value_label(level) for level in levels)
                told.append(f"{short_label(field)} {values} (of {len(every)} values)")
        return f"Shown: {'; '.join(told)}." if told else ""


def panel_title(panel: Mapping[str, Level]) -> str:
    """What is fixed in a panel.

    >>> panel_title({"rate": 4.0, "scheduler": "chunked"})
    'rate 4 requests/s, chunked'
    """
    return ", ".join(
        level_label(field, value) + (" requests/s" if field == "rate" and value else "")
        for field, value in panel.items()
    )


def load_sweep(folder: Path) -> SweepTable:
    """Read `sweep.parquet` and `sweep.yaml` of a finished sweep.

    Raises:
        ConfigError: the folder holds no finished sweep, or a file of it is damaged.
    """
    for name in ("sweep.parquet", "sweep.yaml"):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder}: no {name} here, so this is not a finished sweep: "
                "run `runway sweep ... --out` with this folder first"
            )
    spec = load_spec(folder / "sweep.yaml")
    saved = read_yaml(folder / "sweep.yaml").values
    needed = ("index", "status", *_OUTCOME)
    frame = saved_table(folder / "sweep.parquet", needed=needed, remedy=SWEEP)
    numbers = frame.select_dtypes(include=["Float64", "Int64"]).columns
    points = list(spec.points())
    if len(points) != len(frame):
        raise ConfigError(
            f"{folder / 'sweep.yaml'}: asks for {len(points):,} points, sweep.parquet has "
            f"{len(frame):,}: {SWEEP}"
        )
    asked = {field: [point.values[field] for point in points] for field in spec.varied}
    levels = {field: list(dict.fromkeys(column)) for field, column in asked.items()}
    columns = dict(frame.astype(dict.fromkeys(numbers, "float64")).items())
    columns |= {field: pd.Series(column, dtype=object) for field, column in asked.items()}
    # What a variant sets goes by its name; the columns are for the reader of the table.
    own = {field for variant in spec.variants for field in variant.settings}
    return SweepTable(
        frame=pd.DataFrame(columns),
        grid={field: values for field, values in levels.items() if field not in own},
        slo=saved.get("slo") or {},
        setting=saved.get("setting") or "",
        sampled=tuple(spec.samples.over) if spec.samples else (),
        seeds=max(1, len(spec.seeds)),
    )


def _is_number(value: Level) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
