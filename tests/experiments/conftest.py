"""Running the command in this process, and small inputs for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from experiments.cli import main

Runway = Callable[..., Result]

PER_TOKEN = """\
runway_cost_table: 1
kind: linear
name: per-token
description: 10 ms a step and 1 ms a prompt token
parameters: {step_ms: 10.0, prefill_ms_per_token: 1.0}
provenance: {origin: hand-written for a test}
"""


@pytest.fixture
def runway() -> Runway:
    """Call `runway` with arguments; the result has exit_code, stdout and stderr."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def per_token(tmp_path: Path) -> Path:
    """A cost table: 10 ms + 1 ms a prompt token."""
    path = tmp_path / "per-token.yaml"
    path.write_text(PER_TOKEN, encoding="utf-8")
    return path


@pytest.fixture
def trace_of(tmp_path: Path) -> Callable[..., Path]:
    """A trace file from rows (arrival_s, prompt_tokens, output_tokens)."""

    def write(*rows: tuple[float, int, int], name: str = "trace.csv") -> Path:
        path = tmp_path / name
        lines = ["arrival_s,prompt_tokens,output_tokens", *(",".join(map(str, r)) for r in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write
