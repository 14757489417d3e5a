"""A finished search as its folder holds it, for figures and reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.results import SEARCH_FILES
from experiments.saved_files import SEARCH, saved_json, saved_table
from simulator.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

IN_REPORT = (
    *("answers", "workload", "cost_model.name", "cost_model.stamp", "provenance"),
    *("question.base", "question.over", "question.schedulers", "question.slo"),
    "question.slo_in_words",
)
IN_RUNS = ("scheduler", "configuration", "rate", "replicate", "passed")


def load_search(folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """search.json (Any: JSON values), and a row per run of evaluations.parquet.

    Raises:
        ConfigError: the folder holds no finished search, or a file of it is damaged.
    """
    for name in SEARCH_FILES:
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder}: no {name} here, so this is not a finished search: "
                "run `runway search ... --out` with this folder first"
            )
    report = saved_json(folder / SEARCH_FILES[0], needed=IN_REPORT, remedy=SEARCH)
    return report, saved_table(folder / SEARCH_FILES[1], needed=IN_RUNS, remedy=SEARCH)
