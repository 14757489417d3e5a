"""Per-request and per-step columns. Times in ms."""

import numpy as np
import pytest

from simulator.tables import request_table, step_table
from tests.simulator.results import Asked, Step, result_of
from tests.simulator.runs import (
    preempted,
)
from tests.simulator.single_server import one_at_a_time

MS = 1_000_000


def test_request_table_has_one_row_per_request_and_masks_what_never_happened() -> None:
    requests = [Asked(0, 10, 9), Asked(35, 10, 1), Asked(50, 10, 1)]
    steps = [Step(0, 10, {0: 10}), Step(10, 20, decode=(0,))]
    table = request_table(result_of(requests, steps, stop_ms=40, ids=("a", "b", "c")))
    assert table["id"].tolist() == ["a", "b", "c"]
    assert table["state"].tolist() == ["unfinished", "unfinished", "not_arrived"]
    assert table["arrival_s"].tolist() == [0.0, 0.035, None]
    assert table["ttft_ms"].tolist() == [10.0, None, None]
    assert table["e2el_ms"].tolist() == [None, None, None]
    assert table["worst_itl_ms"].tolist() == [10.0, None, None]
    assert table["active_ms"].tolist() == [20.0, None, None]
    assert table["emitted_tokens"].tolist() == [2, 0, 0]


def test_tables_are_readable_by_pyarrow() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {name: pyarrow.array(column) for name, column in request_table(preempted()).items()}
    assert columns["worst_itl_ms"].to_pylist() == [240.0]
    assert columns["reason"].to_pylist() == [None]
    steps = step_table(preempted())
    assert steps["end_s"].tolist() == [0.1, 0.11, 0.12, 0.36, 0.37]
    assert steps["emitted_tokens"].sum() == 5
    one_token = request_table(one_at_a_time(np.array([0]), np.array([MS])))
    assert pyarrow.array(one_token["tpot_ms"]).null_count == 1
