"""Comparisons with recorded runs that more than one test looks at."""

from pathlib import Path

import pytest

from experiments.validation import DatasetReport, validate

RUNS = Path(__file__).resolve().parents[3] / "../shared/ground-truth/llmservingsim-vllm019"


@pytest.fixture(scope="session")
def llmservingsim_report() -> DatasetReport:
    """The comparison with LLMServingSim's runs, which must lie beside this checkout."""
    if not RUNS.is_dir():
        pytest.skip("the recorded runs are not here")
    return validate(RUNS)
