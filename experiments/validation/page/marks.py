"""The places in a page that a program fills: from `<!-- NAME -->` to `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from simulator.errors import ConfigError

END = "end"
MARK = re.compile(r"^<!-- ([a-z][a-z-]*) -->$", re.MULTILINE)


def filled(page: str, texts: Mapping[str, str], name: str) -> str:
    """The page with each place holding its text. name: of the page, for errors.

    Raises:
        ConfigError: no places, one that nothing is known for, or one without an end.

    >>> print(filled("<!-- a -->\\nold\\n<!-- end -->", {"a": "new"}, "page"))
    <!-- a -->
    new
    <!-- end -->
    """
    marks = list(MARK.finditer(page))
    if not marks:
        raise ConfigError(f"{name} has no <!-- NAME --> ... <!-- end -->: nowhere to write tables")
    parts, done = [], 0
    for begin, end in _pairs(page, marks, name):
        if begin[1] not in texts:
            raise ConfigError(
                f"{name}:{_line(page, begin)}: no table is called {begin[1]!r}; there are "
                f"{', '.join(texts)}"
            )
        parts += [page[done : begin.end()], "\n", texts[begin[1]], "\n"]
        done = end.start()
    return "".join([*parts, page[done:]])


def marks_of(page: str) -> list[str]:
    """Names of the places of a page."""
    return [mark[1] for mark in MARK.finditer(page) if mark[1] != END]


def _pairs(
    page: str, marks: list[re.Match[str]], name: str
) -> list[tuple[re.Match[str], re.Match[str]]]:
    """(begin, end) of each place."""
    for place, mark in enumerate(marks):
        if (mark[1] == END) != (place % 2 == 1) or (place == len(marks) - 1 and mark[1] != END):
            raise ConfigError(
                f"{name}:{_line(page, mark)}: {mark[0]} has no partner: each <!-- NAME --> needs "
                "an <!-- end --> before the next"
            )
    return list(zip(marks[::2], marks[1::2], strict=True))


def _line(page: str, mark: re.Match[str]) -> int:
    return page.count("\n", 0, mark.start()) + 1
