"""Real vLLM runs that LLMServingSim publishes, priced from its kernel tables of the same GPU.

A run is a folder with `requests.csv`, `vllm_meta.json` and `profile/`. Every run is compared twice:
with nothing fitted, and with one constant of its GPU, by which what prompts add to a step takes
longer than their kernels one by one (`opening.py` says where it comes from).

Source: https://github.com/casys-kaist/LLMServingSim, `bench/examples` (MIT).
"""

from __future__ import annotations

from pathlib import Path

from experiments.validation.report import DatasetReport
from simulator.errors import ConfigError

from .recorded import Recorded, read_run
from .runs import report_of

FILES = ("requests.csv", "vllm_meta.json", "profile/meta.yaml")


def recognises(folder: Path) -> bool:
    """Is this a run's folder, or one that holds some?"""
    return bool(run_folders(folder))


def run_folders(folder: Path) -> list[Path]:
    """The folders of all runs, by name."""
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]
    return [place for place in places if all((place / file).is_file() for file in FILES)]


def validate(folder: Path) -> DatasetReport:
    """Simulate every run and compare.

    Raises:
        ConfigError: a file is missing or holds what cannot be. TableFormatError: so does a table.
    """
    runs: list[Recorded] = [read_run(path) for path in run_folders(folder)]
    if not runs:
        raise ConfigError(f"{folder}: no run with {', '.join(FILES)}")
    return report_of(runs)
