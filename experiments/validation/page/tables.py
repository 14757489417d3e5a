"""The tables of the page, one function each: a dataset's rows as Markdown. Errors are per cent.

Nothing that a price was fitted to is in them: of a split, only the part that was tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from experiments.validation.report import Row
from simulator.errors import ConfigError

from .found import Found, beside_peer, markdown, plain, signed
from .groups import (
    BOTH,
    CLOSED,
    DECODE,
    FIRST,
    FROM_LOG,
    KERNELS,
    MIDDLE,
    MIXED,
    NOTHING,
    SLOWED,
    SLOWEST,
    SWEEP,
    TESTED,
    TIMES,
    prices_of,
)
from .summary import in_short, summary


class Table(NamedTuple):
    """dataset: whose rows it shows."""

    dataset: str
    text: Callable[[Found], str]


def schedule(found: Found) -> str:
    """Steps with measured step times fed in."""
    rows = []
    for run in found.runs(NOTHING, CLOSED):
        worst = found.row(run, "e2el_ms", "largest difference", NOTHING)
        ours, real = worst.predicted, worst.measured
        assert ours is not None
        assert real is not None
        from_log = found.find(run, FROM_LOG, "differing", NOTHING)
        rows.append(
            [
                *(run, differing(found.row(run, CLOSED, "differing", NOTHING))),
                "" if from_log is None else differing(from_log),
                f"{100 * found.row(run, 'e2el_ms', 'mape', NOTHING).error:.3f}",
                f"{ours - real:+.1f} ms",
            ]
        )
    return markdown(
        [
            *("run", "steps that differ", "the same, with every arrival read off the log"),
            *("E2E, mean absolute error", "largest difference of an E2E"),
        ],
        rows,
    )


def differing(row: Row) -> str:
    """How many steps differ, of how many."""
    return f"{round(row.error * row.n):,} of {row.n:,}"


def first_part(found: Found) -> str:
    """Fitted on the sweep and the first steps of a run, tested on the rest."""
    return _fitted(found, FIRST, {"E2E, ended in the tested part": (TESTED, "mape")})


def sweep_only(found: Found) -> str:
    """Fitted on the warm-up sweep, tested on the whole run."""
    columns = {
        "E2E": ("e2el_ms", "mape"),
        "mean E2E": ("e2el_ms", "mean"),
        "makespan": ("makespan_s", "whole run"),
    }
    return _fitted(found, SWEEP, columns)


def _fitted(found: Found, split: str, columns: Mapping[str, tuple[str, str]]) -> str:
    rows = []
    for run in found.runs(split):
        together = found.row(run, "step_s (sum)", "sum", split)
        steps = [found.row(run, quantity, "mape", split) for quantity in (DECODE, MIXED)]
        inside = found.find(run, DECODE, "median inside the fitted range", split)
        rest = [found.row(run, *column, split) for column in columns.values()]
        rows.append(
            [
                *(run, *map(beside_peer, steps), *map(beside_peer, rest)),
                *(signed(together.error), together.note.partition(" ")[0].replace("%", " %")),
                "" if inside is None else signed(inside.error),
            ]
        )
    headings = ["run", "decode steps (peer)", "steps with prompts", *columns]
    more = ["time of all tested steps", "of it beyond what the fit saw"]
    return markdown([*headings, *more, "decode steps not beyond it, median"], rows)


def llmservingsim(found: Found) -> str:
    """Means and single requests of every run, with nothing and with one constant fitted."""
    rows = []
    for run in found.runs():
        for fitted_on in prices_of(found, run):
            cells = [
                beside_peer(found.row(run, quantity, statistic, fitted_on))
                for statistic in BOTH
                for quantity in TIMES
            ]
            requests = found.row(run, "e2el_ms", "mean", fitted_on).n
            rows.append([run, fitted_on, f"{requests:,}", *cells])
    means = ["mean TTFT", "mean TPOT", "mean E2E"]
    singles = ["TTFT of a request", "TPOT", "E2E"]
    return markdown(["run", "fitted on", "requests", *means, *singles], rows, text=2)


def residency(found: Found) -> str:
    """Every run that was not fitted, with prices of the slowest runs."""
    columns = (
        *(("ttft_ms", "p50"), ("ttft_ms", "mean"), ("tpot_ms", "mean"), ("e2el_ms", "mean")),
        *(("ttft_ms", "mape"), ("tpot_ms", "mape"), ("e2el_ms", "mape"), ("makespan_s", "mean")),
    )
    rows = []
    for run in found.runs(SLOWEST):
        held = [found.row(run, *column, SLOWEST) for column in columns]
        rows.append([run, f"{held[0].n:,}", *map(beside_peer, held)])
    means = ["TTFT p50 (peer)", "mean TTFT", "mean TPOT", "mean E2E"]
    singles = ["TTFT of a request", "TPOT", "E2E", "makespan"]
    return markdown(["run", "requests", *means, *singles], rows)


def kernel_steps(found: Found) -> str:
    """Recorded steps, priced by NVIDIA's kernels."""
    rows = []
    for run in found.runs(KERNELS, "step_ms"):
        cells = [
            write(found.row(run, quantity, statistic, KERNELS).error)
            for quantity in (DECODE, MIXED)
            for statistic, write in zip(BOTH, (signed, plain), strict=True)
        ]
        rows.append([run, *cells])
    headings = ["decode steps, mean", "one by one", "steps with prompts, mean", "one by one"]
    return markdown(["run", *headings], rows)


def kernels(found: Found) -> str:
    """Runs that no constant was read off, priced by NVIDIA's kernels, as they are and with one."""
    rows = [
        [
            run,
            *(
                signed(found.row(run, quantity, "mean", fitted).error)
                for fitted in (KERNELS, SLOWED)
                for quantity in TIMES
            ),
        ]
        for run in found.runs(SLOWED)
    ]
    constant = found.row(rows[0][0], "e2el_ms", "mean", SLOWED).fitted_on.partition(",")[0]
    means = ["mean TTFT", "mean TPOT", "mean E2E"]
    return markdown(["run", *means, *(f"{mean}, {constant}" for mean in means)], rows)


def servers(found: Found) -> str:
    """All measured servers, of each origin, and of each back end."""
    return _servers(found, [run for run in found.runs() if ": " not in run])


def server_kinds(found: Found) -> str:
    """The same by model, back end and GPU, the worst first."""
    kinds = [run for run in found.runs() if ": " in run]
    error = {run: found.row(run, "tpot_ms", MIDDLE).error for run in kinds}
    return _servers(found, sorted(kinds, key=lambda run: -error[run]))


def _servers(found: Found, groups: Sequence[str]) -> str:
    rows = []
    for group in groups:
        middle = found.row(group, "tpot_ms", MIDDLE)
        rank = found.find(group, "tpot_ms", "rank_correlation")
        rows.append(
            [
                *(group, f"{middle.n:,}", plain(middle.error)),
                beside_peer(found.row(group, "tpot_ms", "mape")),
                signed(found.row(group, "tpot_ms", "median_error").error),
                "" if rank is None else f"{rank.error:.3f}",
                plain(found.row(group, "ttft_ms", MIDDLE).error),
            ]
        )
    mean = "mean (peer)" if any("(" in row[3] for row in rows) else "mean"
    tpot = ["TPOT, median", mean, "signed median", "rank correlation"]
    return markdown(["servers", "number", *tpot, "TTFT, median"], rows)


def notes(found: Found) -> str:
    """What the report says beside the numbers; not of single runs of `aic_fpm`."""
    runs = {row.run for row in found.rows} if found.dataset == "aic_fpm" else set[str]()
    kept = [note for note in found.notes if note.partition(":")[0].partition(",")[0] not in runs]
    return "\n".join(f"- {note}." for note in kept)


PARTS = {
    "steps-fed-in": Table("aic_fpm", schedule),
    "first-part": Table("aic_fpm", first_part),
    "sweep-only": Table("aic_fpm", sweep_only),
    "notes-of-steps": Table("aic_fpm", notes),
    "kernel-tables": Table("llmservingsim", llmservingsim),
    "notes-of-kernel-tables": Table("llmservingsim", notes),
    "loads": Table("residency", residency),
    "public-kernel-steps": Table("residency", kernel_steps),
    "public-kernels": Table("residency", kernels),
    "notes-of-loads": Table("residency", notes),
    "servers": Table("silicon", servers),
    "server-kinds": Table("silicon", server_kinds),
    "notes-of-servers": Table("silicon", notes),
}
"""Name of a place -> what stands there."""
WHOLE = {"summary": summary, "in-short": in_short}
TABLES = (*WHOLE, *PARTS)


def texts_of(report: Mapping[str, Found]) -> dict[str, str]:
    """Name of a place -> its text.

    Raises:
        ConfigError: the report lacks a dataset, or a number.
    """
    for table in PARTS.values():
        if table.dataset not in report:
            raise ConfigError(
                f"the report has no {table.dataset}: run `make accuracy` on the whole data"
            )
    whole = {name: write(report) for name, write in WHOLE.items()}
    return whole | {name: table.text(report[table.dataset]) for name, table in PARTS.items()}
