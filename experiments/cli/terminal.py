"""What the commands print: tables and notices on stdout, the progress bar on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import click

PIPED_WIDTH = 140
UNLIMITED = 10_000
"""Columns: wider than any table."""


class Tick(Protocol):
    """How far something is."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


QUIET_FOR_S = 1.0
"""No bar for what is over sooner."""


def table_text(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1
) -> str:
    """A table as lines; the first `text_columns` columns hold words, the others numbers.

    Words wrap at the width of the terminal, numbers never do.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(header):
        if index < text_columns:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else PIPED_WIDTH
    console = Console(file=sys.stdout, highlight=False, width=width)
    if text_columns < len(header):
        free = console.options.update(width=UNLIMITED)
        console.width = max(console.width, console.measure(table, options=free).maximum)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip("\n")


def print_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], *, text_columns: int = 1
) -> None:
    """`table_text`, on stdout."""
    click.echo(table_text(title, header, rows, text_columns=text_columns))


def say(text: str = "") -> None:
    """A line on stdout."""
    click.echo(text)


@contextmanager
def progress_bar(label: str) -> Iterator[Tick]:
    """A bar to call with (done, total) and perhaps a note to stand behind the time that is left.

    It shows only on a terminal and only after a second.
    """
    if not sys.stderr.isatty():
        yield lambda done, total, note="": None
        return
    bar = _Bar(label)
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    def __init__(self, label: str) -> None:
        self._label = label
        self._shown_from = time.perf_counter() + QUIET_FOR_S
        self._close: Callable[[], None] = lambda: None
        self._draw: Callable[[int, int, str], None] | None = None

    def update(self, done: int, total: int, note: str = "") -> None:
        if self._draw is None:
            if time.perf_counter() < self._shown_from:
                return
            self._draw = self._start(total)
        self._draw(done, total, note)

    def close(self) -> None:
        self._close()

    def _start(self, total: int) -> Callable[[int, int, str], None]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (
            *(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining()),
            TextColumn("{task.fields[note]}"),
        )
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task(self._label, total=total, note="")
        progress.start()
        self._close = progress.stop

        def draw(done: int, total: int, note: str) -> None:
            progress.update(task, completed=done, total=total, note=note)

        return draw


def number(value: float | None, digits: int = 1) -> str:
    """A number for a table: thousands separated; `-` for absent.

    >>> number(12345.678), number(None), number(0.123, 3)
    ('12,345.7', '-', '0.123')
    """
    return "-" if value is None else f"{value:,.{digits}f}"
