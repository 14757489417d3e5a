"""What a notebook shows of a result and of a sweep."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

from costmodels import ConstantCostModel
from experiments.sweep import load_spec, run_sweep
from simulator import ContinuousScheduler, KVCache, Request, simulate


def cells(html: str) -> list[str]:
    """The texts of a table's cells, row by row; fails on unbalanced elements."""
    found: list[str] = []
    stack: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert stack.pop() == tag

        def handle_data(self, data: str) -> None:
            if stack and stack[-1] in ("td", "th"):
                found.append(data)

    Reader().feed(html)
    assert not stack
    return found


def test_a_result_shows_its_latencies() -> None:
    """One prompt: prefill 80 ms, then two tokens at 10 ms: TTFT 80, gaps 10, E2E 100."""
    request = Request("a", 0, prompt_tokens=10, output_tokens=3)
    prices = ConstantCostModel(80, 10)
    result = simulate([request], ContinuousScheduler(), prices, KVCache(64))
    html = result._repr_html_()
    shown = cells(html)
    assert shown[:7] == ["ms", "mean", "p50", "p90", "p99", "max", "n"]
    assert shown[7:14] == ["TTFT", "80.0", "80.0", "80.0", "80.0", "80.0", "1"]
    assert shown[14:21] == ["ITL", "10.0", "10.0", "10.0", "10.0", "10.0", "2"]
    assert shown[21:] == ["E2E", "100.0", "100.0", "100.0", "100.0", "100.0", "1"]
    assert "1 of 1 requests finished; 3 steps in 0.1 simulated seconds; 64 KV blocks" in html


def test_a_result_needs_no_pandas_to_show_itself() -> None:
    program = (
        "import sys; from simulator import *; from costmodels import ConstantCostModel\n"
        "r = simulate([Request('a', 0, prompt_tokens=1, output_tokens=1)], ContinuousScheduler(),"
        " ConstantCostModel(80, 10), KVCache(64))\n"
        "assert '<td>-</td>' in r._repr_html_(); assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_sweep_shows_its_best_points_first(tmp_path: Path) -> None:
    grid = {"scheduler": ["continuous", "chunked"], "max_num_batched_tokens": [32, 512]}
    base = {"requests": 20, "rate": 4, "max_num_seqs": 64}
    outcome = run_sweep(load_spec(None, base, grid), tmp_path / "out")
    html = outcome._repr_html_()
    shown = cells(html)
    assert shown[:4] == ["point", "scheduler", "max_num_batched_tokens", "request_goodput"]
    goodput = [float(cell) for cell in shown[13::10]]
    assert goodput == sorted(goodput, reverse=True)
    assert f"{outcome.ok} of 4 points ran" in html
