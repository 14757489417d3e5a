"""Figures and page of a sweep whose points are means over seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.plots import plot_sweep
from experiments.report import write_report
from experiments.sweep import load_spec, run_sweep

SWEEP = """
base: {requests: 10, input_tokens: "300", output_tokens: "10"}
grid: {rate: [2.0, 4.0]}
variants:
- {name: defaults, scheduler: vllm}
- {name: small chunks, scheduler: chunked, chunk_size: 128}
seeds: [0, 1, 2]
"""


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rates x two variants, three seeds each."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "asked.yaml").write_text(SWEEP)
    run_sweep(load_spec(folder / "asked.yaml"), folder / "out")
    return folder / "out"


@pytest.mark.filterwarnings("error")
def test_its_many_columns_are_read_without_a_warning(repeated: Path) -> None:
    assert plot_sweep(repeated)
    assert write_report(repeated).is_file()
