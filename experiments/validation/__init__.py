"""Simulated against measured: datasets of real engines, in the formats their authors publish.

Each dataset is a module here with `recognises(folder)` and `validate(folder)`; the folder is the
user's, nothing of it is bundled.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from simulator.errors import ConfigError

from .report import DatasetReport, Row, Samples

DATASETS: dict[str, str] = {
    "aic_fpm": "<model>_tp<N>_ep<N>.steps.csv.gz with .requests.csv.gz (NVIDIA AIConfigurator)",
    "llmservingsim": "runs of LLMServingSim (requests.csv, vllm_meta.json, profile/)",
    "silicon": "measured servers of AIConfigurator (silicon_sample.csv)",
    "residency": "residency-vllm, H100 Qwen3-14B: runs/ and derived_steps/ of CSV.gz",
}
"""Module here -> what it reads, in words."""


class Dataset(Protocol):
    """What a module listed in DATASETS offers."""

    def recognises(self, folder: Path) -> bool:
        """Does the folder hold this dataset's files?"""

    def validate(self, folder: Path) -> DatasetReport:
        """Simulate every run found in the folder and compare.

        Raises:
            ConfigError: a file is missing or holds what cannot be.
        """


def validate(folder: Path) -> DatasetReport:
    """Compare the simulation with the measurements in `folder`.

    Raises:
        ConfigError: no such folder, or no known dataset in it.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: give the folder of a dataset")
    for name in DATASETS:
        dataset = cast(Dataset, importlib.import_module(f"{__name__}.{name}"))
        if dataset.recognises(folder):
            return dataset.validate(folder)
    known = "; ".join(f"{name}: {files}" for name, files in DATASETS.items()) or "none"
    raise ConfigError(f"{folder} holds no known dataset; known are {known}")


__all__ = ["DATASETS", "Dataset", "DatasetReport", "Row", "Samples", "validate"]
