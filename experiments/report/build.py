"""From a results folder, of whatever kind, to its page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from experiments.results import COMPARE_FILES, REPORT, RUN_FILES, SWEEP_FILES, write_whole
from simulator.errors import ConfigError
from simulator.output import check_output

from .page import Page

_SEARCH = "search.json"

KINDS = {
    RUN_FILES[0]: "run",
    SWEEP_FILES[0]: "sweep",
    _SEARCH: "search",
    COMPARE_FILES[0]: "compare",
}
"""The file that tells a folder's kind -> the module `<kind>_page` that reads it."""


def build_report(folder: Path) -> Page:
    """The page of a run, a sweep, a search or a comparison.

    Raises:
        ConfigError: the folder holds none of them.
    """
    readers: dict[str, Callable[[Path], Page]] = {
        "run": _run,
        "sweep": _sweep,
        "search": _search,
        "compare": _compare,
    }
    for marker, kind in KINDS.items():
        if (folder / marker).is_file():
            return readers[kind](folder)
    missing = "no such folder" if not folder.exists() else "no results in it"
    expected = ", ".join(f"{marker} of a {kind}" for marker, kind in KINDS.items())
    raise ConfigError(f"{folder}: {missing}: expected {expected}")


def write_report(folder: Path, path: Path | None = None) -> Path:
    """Write the page, whole or not at all; returns where. path: default `folder/report.html`.

    Raises:
        ConfigError: the folder holds no results, or the place cannot be written to.
    """
    place = path or folder / REPORT
    if path is not None:
        check_output(path)
    write_whole(place, build_report(folder).html().encode())
    return place


def _run(folder: Path) -> Page:
    from .run_page import run_page

    return run_page(folder)


def _sweep(folder: Path) -> Page:
    from .sweep_page import sweep_page

    return sweep_page(folder)


def _search(folder: Path) -> Page:
    from .search_page import search_page

    return search_page(folder)


def _compare(folder: Path) -> Page:
    from .compare_page import compare_page

    return compare_page(folder)
