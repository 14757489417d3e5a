"""`docs/accuracy.md`: its tables, written from the report of `runway validate`.

    python -m experiments.validation.page accuracy/report.json docs/accuracy.md README.md

What stands between `<!-- NAME -->` and `<!-- end -->` is replaced; all other text is the author's.
The same report gives the same pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.results import write_whole
from simulator.errors import ConfigError

from .found import read_report
from .marks import filled, marks_of
from .tables import TABLES, texts_of


def fill(report: Path, pages: Sequence[Path]) -> None:
    """Write every table of the report into the pages that have its marks: all of them, or none.

    Raises:
        ConfigError: the report lacks a dataset or a number; a page has no marks, or unknown ones; a
            table has no place; or a page cannot be read or written.
    """
    texts = texts_of(read_report(report))
    drafts = {page: filled(_read(page), texts, str(page)) for page in pages}
    placed = {name for draft in drafts.values() for name in marks_of(draft)}
    for name in TABLES:
        if name not in placed:
            raise ConfigError(
                f"{', '.join(map(str, pages))}: no place for a table: write the lines "
                f"<!-- {name} --> and <!-- end --> where it belongs"
            )
    for page, draft in drafts.items():
        write_whole(page, draft.encode("utf-8"))


def _read(page: Path) -> str:
    try:
        return page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{page}: cannot be read: {error}") from None


__all__ = ["TABLES", "fill", "read_report", "texts_of"]
