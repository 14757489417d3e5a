"""Shared by the tests of workloads: small files, and what "identical" means for a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from simulator.trace import Trace

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "traces"


@pytest.fixture
def identical() -> Callable[[Trace, Trace], None]:
    """Assert that two traces agree in every field, dtypes included."""

    def check(left: Trace, right: Trace) -> None:
        for field in fields(Trace):
            ours, theirs = getattr(left, field.name), getattr(right, field.name)
            if isinstance(ours, np.ndarray):
                assert ours.dtype == theirs.dtype == np.int64, field.name
                np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
            else:
                assert ours == theirs, field.name

    return check


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a small file and give its path."""

    def make(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.fixture
def shared_trace() -> Callable[[str], Path]:
    """The path of a real trace, or a skip when it is not on this machine."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"the real trace {name} is not on this machine")
        return path

    return find
