"""Draws the figures of README and docs again: `make figures`. Everything comes from a simulation
of the bundled workload with a bundled cost table, so the same commit draws the same pictures.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from costmodels import load_cost_model
from experiments.config import load_config
from experiments.lesson import run_lesson
from experiments.plots import plot_run, plot_search, plot_sweep
from experiments.plots.lesson import draw_lesson
from experiments.run import run_config, write_run
from experiments.search import Question, read_knobs, read_objective, run_search
from experiments.sweep import load_spec, run_sweep

HERE = Path(__file__).resolve().parent
BASE = {"workload": "bundled", "cost_model": "b300-qwen3-32b-tp2"}

CHUNKS_AND_BUDGETS = {
    "chunk_size": (256, 512, 1024, 2048, None),
    "max_num_batched_tokens": (512, 2048, 8192),
}
SCHEDULERS = {"scheduler": ("static", "continuous", "alternating", "chunked")}


def draw_sweep(
    base: Mapping[str, object], grid: Mapping[str, tuple[object, ...]], names: Mapping[str, str]
) -> None:
    """Run a sweep and keep some of its figures: name there -> name here."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "sweep"
        run_sweep(load_spec(None, {**BASE, **base}, grid), out, jobs=-1)
        for drawn in plot_sweep(out):
            if drawn.name in names:
                keep(drawn, HERE / names[drawn.name])


def draw_search() -> None:
    """The figure of docs/search.md: three policies under one SLO."""
    question = Question(
        BASE,
        ("vllm", "chunked", "continuous"),
        read_knobs(["chunk_size=512,2048,none", "max_num_batched_tokens=2048,8192"]),
        read_objective(["ttft_p95=1500ms", "tpot_p99=50ms"]),
    )
    with TemporaryDirectory() as folder:
        run_search(question, Path(folder) / "search", jobs=-1)
        (drawn,) = plot_search(Path(folder) / "search")
        keep(drawn, HERE / "search.png")


def draw_one_run(config: Mapping[str, object], names: Mapping[str, str]) -> None:
    """Run once with all steps and keep some of its figures: name there -> name here."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        write_run(run_config(load_config(None, {**BASE, **config})), out, steps=True)
        for drawn in plot_run(out):
            if drawn.name in names:
                keep(drawn, HERE / names[drawn.name])


def keep(drawn: Path, place: Path) -> None:
    """Move a figure here and say so."""
    shutil.copyfile(drawn, place)
    sys.stdout.write(f"drew {place.relative_to(HERE.parents[1])}\n")


def main() -> None:
    """All figures."""
    draw_sweep({"chunk_size": 512}, SCHEDULERS, {"timeline.png": "who-waits.png"})
    names = ("ttft-vs-tpot.png", "chunk-size.png", "goodput-heatmap.png")
    draw_sweep({}, CHUNKS_AND_BUDGETS, {name: name for name in names})
    loads = {"scheduler": ("continuous", "chunked"), "rate": (2, 4, 6, 8, 10, 12)}
    name = "latency-throughput.png"
    draw_sweep({"chunk_size": 512}, loads, {name: name})
    draw_one_run({"scheduler": "continuous"}, {"timeline.png": "run-timeline.png"})
    with TemporaryDirectory() as folder:
        draw_lesson(run_lesson(load_cost_model("lesson")), Path(folder) / "lesson.png")
        keep(Path(folder) / "lesson.png", HERE / "lesson.png")
    draw_search()


if __name__ == "__main__":
    main()
