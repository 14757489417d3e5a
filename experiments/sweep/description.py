"""The files of a finished sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.results import SWEEP_FILES, results_folder, write_yaml

from .notes import described, notes_of
from .replicates import CONFIDENCE
from .spec import SweepSpec
from .store import Record, identity

if TYPE_CHECKING:
    import pandas as pd


def write_sweep(
    spec: SweepSpec,
    out: Path,
    records: Sequence[Record],
    rows: pd.DataFrame,
    moment: pd.DataFrame | None,
) -> None:
    """The table, as Parquet and CSV, the timelines of one moment, and sweep.yaml.

    records: one per point. rows: the table.

    Raises:
        ConfigError: the folder cannot be written to.
    """
    with results_folder(out, owned=SWEEP_FILES) as draft:
        rows.to_parquet(draft / "sweep.parquet", index=False)
        rows.to_csv(draft / "sweep.csv", index=False, lineterminator="\n")
        if moment is not None:
            moment.to_parquet(draft / "timelines.parquet", index=False)
        write_yaml(
            draft / "sweep.yaml", _description(spec, records), "runway sweep sweep.yaml --out DIR"
        )


def _description(spec: SweepSpec, records: Sequence[Record]) -> Record:
    """The spec as it can be run again, and what figures and readers need to know of the runs."""
    ran = [record for record in records if record["status"] == "ok"]
    settings = [dict.fromkeys(record["setting"]) for record in ran]
    counts = Counter(record["status"] for record in records)
    asked = identity(spec)
    notes = notes_of(records)
    varied: Record = {n: asked[n] for n in ("variants", "samples", "seeds") if n in asked}
    return {
        "base": dict(spec.base),
        "grid": {name: list(values) for name, values in spec.grid.items()},
        **varied,
        "points": {status: counts[status] for status in ("ok", "invalid", "failed")},
        **({"confidence": CONFIDENCE} if len(spec.runs) > 1 else {}),
        "slo": ran[0]["slo"] if ran else None,
        "setting": ", ".join(
            part for part in (settings or [{}])[0] if all(part in other for other in settings)
        ),
        **({"notes": described(notes)} if notes else {}),
        "provenance": {name: asked[name] for name in ("runway_version", "files")},
    }
