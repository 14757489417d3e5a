"""The report of `runway validate`, read again, and how its numbers are written in a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.validation.report import Row
from simulator.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Found:
    """What a report says of one dataset."""

    dataset: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def runs(self, fitted_on: str = "", quantity: str = "") -> list[str]:
        """Runs with rows whose `fitted_on` and quantity begin so, by name: 6 before 12.

        Raises:
            ConfigError: there is none.
        """
        found = dict.fromkeys(
            row.run
            for row in self.rows
            if row.fitted_on.startswith(fitted_on) and row.quantity.startswith(quantity)
        )
        if not found:
            raise self._lacking(f"runs with {quantity or 'errors'} fitted on {fitted_on!r}")
        return sorted(found, key=_natural)

    def find(self, run: str, quantity: str, statistic: str, fitted_on: str = "") -> Row | None:
        """The row, if there is one; fitted_on: how it begins."""
        for row in self.rows:
            if (row.run, row.quantity, row.statistic) == (
                *(run, quantity, statistic),
            ) and row.fitted_on.startswith(fitted_on):
                return row
        return None

    def row(self, run: str, quantity: str, statistic: str, fitted_on: str = "") -> Row:
        """The row.

        Raises:
            ConfigError: there is none.
        """
        row = self.find(run, quantity, statistic, fitted_on)
        if row is None:
            raise self._lacking(f"{quantity} {statistic} of {run} fitted on {fitted_on!r}")
        return row

    def _lacking(self, what: str) -> ConfigError:
        return ConfigError(
            f"the report has no {what} ({self.dataset}): run `make accuracy` on the whole data, "
            "with the extra `aic` installed"
        )


def read_report(path: Path) -> dict[str, Found]:
    """Dataset -> what `report.json` says of it.

    Raises:
        ConfigError: the file is missing or not a report.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))["datasets"]
        return {
            each["dataset"]: Found(
                each["dataset"], tuple(Row(**row) for row in each["rows"]), tuple(each["notes"])
            )
            for each in held
        }
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}: `make accuracy` writes it") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not a report of `runway validate --out`: {error!r}: run `make accuracy`"
        ) from None


def _natural(run: str) -> list[tuple[int, str]]:
    """Digits count as numbers."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", run)]


def signed(error: float) -> str:
    """Per cent with one digit and its sign, which zero has not.

    >>> [signed(error) for error in (0.0123, -0.0004, -0.2)]
    ['+1.2', '0.0', '-20.0']
    """
    text = f"{100 * error:+.1f}"
    return text if text.strip("+-0.") else "0.0"


def plain(error: float) -> str:
    """Per cent with one digit.

    >>> plain(0.0123)
    '1.2'
    """
    return f"{100 * error:.1f}"


def span(rows: Iterable[Row]) -> str:
    """The range of their errors; signed, but for means of absolute errors.

    >>> rows = [Row("a", "q", "mean", None, None, error, 1, "nothing") for error in (0.01, -0.02)]
    >>> span(rows), span(rows[:1])
    ('-2.0 to +1.0', '+1.0')
    """
    held = list(rows)
    write = plain if held[0].statistic in ("mape", "median_abs_error") else signed
    least, most = (write(of(row.error for row in held)) for of in (min, max))
    return least if least == most else f"{least} to {most}"


def beside_peer(row: Row) -> str:
    """An error and, in brackets, that of the other simulator."""
    write = plain if row.statistic == "mape" else signed
    return write(row.error) + ("" if row.peer is None else f" ({write(row.peer)})")


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1) -> str:
    """A Markdown table; text: how many leading columns hold words, the others are set to the right.

    >>> print(markdown(["run", "error"], [["a", "+1.0"]]))
    | run | error |
    | --- | ---: |
    | a | +1.0 |
    """
    rule = [*["---"] * text, *["---:"] * (len(headings) - text)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rule, *rows))
