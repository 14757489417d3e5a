"""The mark of a setting: colour, shape, size and label from the swept fields."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.lines import Line2D

from .style import MARKERS, dot, level_label, value_label
from .sweep_table import Level, Row, SweepTable

ANY = "any"
"""A value that makes no difference to its point."""
_GREY = "#8a8a8a"
_LABEL_ORDER = ("scheduler", "chunk_size", "max_num_batched_tokens")


class Marks:
    """Colour by the first field, shape by a second; settings that coincide stay visible.

    If any do, the first field's low values get larger marks and are drawn first, so that equal
    results of several budgets show as rings around each other.
    """

    def __init__(self, table: SweepTable, fields: Sequence[str]) -> None:
        self._table = table
        self.label_fields = [field for field in _LABEL_ORDER if field in fields]
        self.label_fields += [field for field in fields if field not in self.label_fields]
        self._colour_field = fields[0]
        self._colours = table.colours(fields[0])
        levels = table.measured_levels(fields[0])
        places = table.measured.groupby(["ttft_ms_p99", "tpot_ms_p99"])[fields[0]]
        coincide = bool((places.nunique(dropna=False) > 1).any())
        self._rank = {
            level: len(levels) - 1 - rank if coincide else 0 for rank, level in enumerate(levels)
        }
        second = [field for field in ("scheduler", *fields[1:]) if field in fields[1:]]
        shaped = [field for field in second if len(table.measured_levels(field)) <= len(MARKERS)]
        self._shape_field = shaped[0] if shaped else None
        shapes = table.measured_levels(shaped[0]) if shaped else []
        self._shapes: dict[Level, str] = dict(zip(shapes, MARKERS, strict=False))

    def colour(self, row: Row) -> str:
        return self._colours[row[self._colour_field]]

    def marker(self, row: Row) -> str:
        return self._shapes[row[self._shape_field]] if self._shape_field else "o"

    def reach(self, row: Row) -> float:
        """Mark size in points."""
        return 8.0 + 2.6 * min(self._rank[row[self._colour_field]], 4)

    def label(self, row: Row) -> str:
        """Its values; `any` where the value makes no difference to this point."""
        return " / ".join(self.values(row).values())

    def values(self, row: Row) -> dict[str, str]:
        """Its values by field, as `label` has them."""
        return {
            field: value_label(row[field])
            if field == "scheduler" or self._table.matters(row, field)
            else ANY
            for field in self.label_fields
        }

    def legend(self) -> list[list[Line2D]]:
        colours, field = self._colours, self._colour_field
        groups = [[dot(level_label(field, level), colours[level], "o") for level in self._rank]]
        if self._shape_field:
            groups.append(
                [
                    dot(level_label(self._shape_field, level), _GREY, shape)
                    for level, shape in self._shapes.items()
                ]
            )
        return groups
