"""Operator tables that others measured and published, as cost tables of kind `operators`.

    python -m costmodels.importers llmservingsim FOLDER --model llama-3.1-8b -o table.json

or without a file, `load_cost_model("llmservingsim:FOLDER", model="llama-3.1-8b")`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from costmodels.model_config import ModelConfig
from costmodels.table import CostTable
from simulator.errors import ConfigError, nearest

from .aiconfigurator import import_aiconfigurator
from .llmservingsim import import_llmservingsim
from .vidur import import_vidur

IMPORTERS: Mapping[str, Callable[[Path, ModelConfig, int], CostTable]] = {
    "aiconfigurator": import_aiconfigurator,
    "llmservingsim": import_llmservingsim,
    "vidur": import_vidur,
}
"""Source -> (folder, model, tensor-parallel degree) -> table."""


def import_table(
    source: str, folder: str | Path, model: ModelConfig, *, tensor_parallel: int = 1
) -> CostTable:
    """The tables of a source in a folder, as one cost table for a model.

    Raises ConfigError for an unknown source or a folder that does not fit the model,
    TableFormatError, with file and line, for a value that is not understood.
    """
    if source not in IMPORTERS:
        raise ConfigError(
            f"no importer {source!r}{nearest(source, IMPORTERS)} (known: {', '.join(IMPORTERS)})"
        )
    folder = Path(folder)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder: give the one that holds the {source} tables")
    if tensor_parallel < 1:
        raise ConfigError(f"tensor_parallel is {tensor_parallel}: must be at least 1")
    return IMPORTERS[source](folder, model, tensor_parallel)
