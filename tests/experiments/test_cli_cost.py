"""`runway cost`: one price, term by term."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from costmodels import OperatorGrids, OperatorsCostModel, load_cost_model, save_table
from simulator.plan import StepShape

Runway = Callable[..., Result]
STEP = ("--prefill", 512, "--past", 64, "--decode", 64, "--context", 2048)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A chunk of 512: 4 ms; 8 decodes at 1,024: 9 ms; 2 layers."""
    grids = OperatorGrids(attention=((0, 0, 8, 1024, 9000.0), (512, 0, 0, 0, 4000.0)))
    path = tmp_path / "small.json"
    save_table(OperatorsCostModel(grids, layers=2).table, path)
    return path


def test_the_terms_of_a_linear_table_add_up(runway: Runway) -> None:
    held = json.loads(runway("cost", "b300-qwen3-32b-tp1", *STEP, "--json").stdout)
    shape = StepShape(((512, 64),), 64, 64 * 2048, 2048)
    assert held["price_ms"] == load_cost_model("b300-qwen3-32b-tp1").step_ns(shape) / 1e6
    assert sum(term["ms"] for term in held["terms"]) == pytest.approx(held["price_ms"], abs=1e-6)
    assert held["beyond"] == [
        "decode_seqs 64 (measured 0 to 32)",
        "decode_context_tokens 131072 (measured 0 to 77,595)",
    ]
    inside = runway("cost", "b300-qwen3-32b-tp1", "--prefill", 512, "--decode", 8, "--json")
    assert json.loads(inside.stdout)["beyond"] == []


def test_a_roofline_is_explained_for_its_model_and_device(runway: Runway) -> None:
    flags = ("--model", "llama-3.1-8b", "--device", "h100-sxm")
    result = runway("cost", "roofline", *STEP, *flags)
    assert result.exit_code == 0
    assert "bound by FLOP/s" in result.stdout
    assert "! uncalibrated: roofline of llama-3.1-8b" in result.stdout


def test_an_operators_table_is_explained(runway: Runway, small: Path) -> None:
    flags = ("--prefill", 512, "--decode", 8, "--context", 1024)
    held = json.loads(runway("cost", small, *flags, "--json").stdout)
    assert held["terms"] == [
        {"term": "attention of chunks", "ms": 8.0},
        {"term": "attention of decodes beside chunks", "ms": 18.0},
    ]
    assert held["price_ms"] == 26.0


def test_a_price_beyond_the_table_says_so(runway: Runway, small: Path) -> None:
    result = runway("cost", small, "--decode", 16, "--context", 1024)
    assert "! beyond what was measured: decode_seqs 16 (measured 8 to 8)" in result.stdout


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ((), "give --prefill or --decode"),
        (("--decode", 4, "--past", 3), "--past 3 has no effect without --prefill"),
        (("--prefill", 4, "--context", 3), "--context 3 has no effect without --decode"),
        (("--decode", -1), "-1"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused(
    runway: Runway, flags: tuple[object, ...], problem: str
) -> None:
    result = runway("cost", "lesson", *flags)
    assert result.exit_code == 2
    assert problem in result.stderr
