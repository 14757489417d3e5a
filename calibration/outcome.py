"""`Outcome`: what a calibration found, and how it says so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .grid import Shape

NOISY = 0.10
"""Inter-quartile range over median from which a shape is called noisy, as in BenchmarkTools.jl."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """held_out: the table's section. noisy: shapes whose samples spread over 10 %, of `shapes`;
    skipped: shape -> reason.
    """

    output: Path
    held_out: dict[str, object]
    errors: list[float]
    noisy: int
    shapes: int
    skipped: dict[Shape, str]

    @property
    def summary(self) -> str:
        """What the command prints."""
        median, p90 = (100 * float(str(self.held_out[key])) for key in ("median", "p90"))
        lines = [
            f"{self.output}: held-out error median {median:.1f} %, p90 {p90:.1f} % "
            f"({len(self.errors)} whole steps the table was not built from)"
        ]
        if self.noisy:
            lines.append(
                f"! {self.noisy} of {self.shapes} shapes: the inter-quartile range is over "
                f"{NOISY:.0%} of the median: let the machine rest, or give more --time-budget"
            )
        lines += [f"! skipped {tuple(shape)}: {reason}" for shape, reason in self.skipped.items()]
        return "\n".join(lines)
