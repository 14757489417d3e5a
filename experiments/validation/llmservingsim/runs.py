"""From recorded runs to a report: prices, constants, comparisons, and what is said beside them."""

from __future__ import annotations

from dataclasses import dataclass

from costmodels import CostTable
from experiments.validation.report import DatasetReport, Row, Samples
from simulator.errors import ConfigError, TableFormatError

from .compare import Served, compared_run, served
from .opening import Constant, constant_of
from .prices import cost_model, kernel_table, split_kv_below, usable_blocks
from .recorded import Recorded

SOURCE = "LLMServingSim, bench/examples (MIT): vLLM AsyncLLM in process, 300 ShareGPT requests"
UNFITTED = "nothing"
NO_SLOWER = 0.01
"""A constant nearer to 1 than that is none."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A run with its kernel table, and as simulated with nothing fitted."""

    run: Recorded
    table: CostTable
    unfitted: Served
    constant: Constant | None

    @property
    def gpu(self) -> str:
        """The device the kernels were measured on."""
        return str(self.table.provenance["device"])


def report_of(runs: list[Recorded]) -> DatasetReport:
    """Every run with nothing fitted, and with the constant of its GPU.

    Raises:
        ConfigError: no run can be priced; what only some of them lack is a note.
    """
    priced, notes = _priceable(runs)
    rows: list[Row] = []
    samples: list[Samples] = []
    for one in priced:
        added, pairs = compared_run(one.run, one.unfitted, fitted_on=UNFITTED, but=frozenset())
        rows += added
        notes += _notes(one)
        reference = _reference(one, priced)
        if reference is None or reference.constant is None:
            notes.append(f"{one.run.name}: no constant, for too few full steps were recognised")
            samples += pairs
            continue
        factor, spans, seen = reference.constant
        notes.append(
            f"{one.run.name}: the constant is x {factor:.3f} on what prompts add, the median of "
            f"{spans} spans of full steps in the opening of {reference.run.name}"
        )
        if abs(factor - 1) < NO_SLOWER:
            samples += pairs
            continue
        again = served(one.run, one.table, factor)
        place = "its opening" if reference is one else f"opening of {reference.run.name}"
        fitted_on = f"x {factor:.3f}, {place}"
        added, pairs = compared_run(
            one.run, again, fitted_on=fitted_on, but=seen if reference is one else frozenset()
        )
        rows += added
        samples += pairs
    return DatasetReport("llmservingsim", SOURCE, tuple(rows), tuple(samples), tuple(notes))


def _priceable(runs: list[Recorded]) -> tuple[list[Priced], list[str]]:
    """(runs with prices, why others have none)."""
    priced: list[Priced] = []
    problems: list[str] = []
    for run in runs:
        try:
            priced.append(_priced(run))
        except (ConfigError, TableFormatError) as error:
            problems.append(f"{run.name} is left out: {error}")
    if not priced:
        raise ConfigError("; ".join(problems))
    return priced, problems


def _priced(run: Recorded) -> Priced:
    table = kernel_table(run)
    unfitted = served(run, table)
    result = unfitted.result
    constant = constant_of(run, result, cost_model(run, table)) if result else None
    return Priced(run, table, unfitted, constant)


def _reference(one: Priced, others: list[Priced]) -> Priced | None:
    """The run whose opening gives the constant: on the same GPU, and on the fewest of them."""
    held = [other for other in others if other.gpu == one.gpu and other.constant is not None]
    return min(held, key=lambda other: other.run.gpus * other.run.replicas, default=None)


def _notes(one: Priced) -> list[str]:
    run, operators = one.run, one.table.operators
    blocks = usable_blocks(run)[1]
    skew = "measured" if operators and operators.skew else "no profile: all contexts count as equal"
    below = split_kv_below(run, one.table)
    split = f"below {below}" if below else "not known, one kernel assumed"
    return [
        f"{run.name}: {one.gpu}, {run.model}; {blocks}; {run.prefix_rule}; unequal contexts: {skew}"
        f"; decode batches whose attention is split: {split}"
    ]
