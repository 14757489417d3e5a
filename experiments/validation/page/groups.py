"""How the rows of a report belong together: splits, quantities, models, loads, and their names."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.validation.report import Row

from .found import Found, plain, signed

NOTHING = "nothing"
FIRST, SWEEP = "sweep + first", "sweep only"
SLOWEST, KERNELS, SLOWED = "2 req/s runs", "nothing: NVIDIA's kernels", "x "
"""How `Row.fitted_on` begins."""

STEPS_FROM = {FIRST: "its warm-up and the first 30 % of its steps", SWEEP: "its warm-up only"}
LOADS_FROM = "the runs at 2 requests/s"
PUBLIC = "NVIDIA's public kernels, nothing fitted"
H100 = "vLLM 0.23, Qwen3-14B on an H100"
NOBODY = "none found"

DECODE, MIXED = "step_ms (decode)", "step_ms (mixed)"
CLOSED, FROM_LOG = "step sequence", "step sequence (all arrivals from the log)"
TESTED = "e2el_ms (ended in the test part)"
TIMES = ("ttft_ms", "tpot_ms", "e2el_ms")
BOTH = ("mean", "mape")
MIDDLE = "median_abs_error"
SATURATED_MS = 500.0
"""Of mean TTFT: from there on a run is called saturated."""


def models(found: Found) -> dict[str, list[str]]:
    """Model and GPUs of a step log, in words -> its runs."""
    runs_of: dict[str, list[str]] = {}
    for run in found.runs(NOTHING, CLOSED):
        runs_of.setdefault(run.partition("_tp")[0], []).append(run)
    named = {}
    for model, runs in runs_of.items():
        gpus = " / ".join(run.partition("_tp")[2].partition("_")[0] for run in runs)
        named[f"vLLM 0.20.1, {model} on {gpus} B300"] = runs
    return named


def by_load(found: Found, runs: Iterable[str]) -> dict[str, list[str]]:
    """Runs whose requests hardly queue, and those whose do."""
    loads: dict[str, list[str]] = {}
    for run in runs:
        measured = found.row(run, "ttft_ms", "mean").measured
        assert measured is not None
        words = "saturated" if measured >= SATURATED_MS else "below saturation"
        loads.setdefault(f"{H100}, {words}", []).append(run)
    return loads


def prices_of(found: Found, run: str) -> list[str]:
    """What the prices of a run were fitted on, in the order of the report."""
    return list(dict.fromkeys(row.fitted_on for row in found.rows if row.run == run))


def kernel_tables(fitted_on: str) -> str:
    """Prices from the kernel tables of a GPU, in words."""
    return f"its GPU's kernel tables; {'nothing fitted' if fitted_on == NOTHING else fitted_on}"


def origins(found: Found) -> list[str]:
    """All servers, then those of each origin."""
    runs = [run for run in found.runs() if "," not in run and ": " not in run]
    return sorted(runs, key=lambda run: not run.startswith("all"))


def peers(rows: Iterable[Row]) -> str:
    """The errors of another simulator for the same numbers, one after another."""
    held = [row for row in rows if row.peer is not None]
    if not held:
        return NOBODY
    write = plain if held[0].statistic == "mape" else signed
    return " / ".join(write(row.peer or 0.0) for row in held)


def peers_span(rows: Iterable[Row]) -> str:
    """Their range."""
    held = [row.peer for row in rows if row.peer is not None]
    return f"TTFT p50 {signed(min(held))} to {signed(max(held))}" if held else NOBODY
