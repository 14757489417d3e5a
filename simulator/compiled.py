"""Which form of the event loop runs: its modules compiled by mypyc, or their source interpreted.

Both come from the same files and give the same results to the byte; compiled, a run takes less
than half the time. `setup.py` compiles where there is a C compiler and writes down of which source.
A module whose source has changed since is never run compiled, and neither are the others then.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from importlib.util import source_hash
from pathlib import Path

SWITCH = "RUNWAY_INTERPRETED"
"""The environment variable that asks for the source, for debugging and for comparison."""

FOLDERS = ("simulator", "simulator/schedulers", "costmodels")
"""Where compiled modules lie, beside their source."""

ROOT = Path(__file__).parent.parent


def manifest(folder: Path) -> Path:
    """The file, in the folder of this module, that says what was compiled for this Python."""
    return folder / f"compiled-{sys.implementation.cache_tag}.txt"


def compiled_file(folder: Path, name: str) -> Path:
    """Where a source file's compiled module lies, below `folder`."""
    return folder / f"{name.removesuffix('.py')}{EXTENSION_SUFFIXES[0]}"


def line_of(root: Path, name: str) -> str:
    """A line of the manifest: a hash of the source, and its path below `root`."""
    return f"{source_hash((root / name).read_bytes()).hex()} {name}"


def _why_interpreted() -> str | None:
    """None: the compiled modules run."""
    if os.environ.get(SWITCH):
        return f"{SWITCH} is set"
    try:
        compiled = manifest(Path(__file__).parent).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return "it was not compiled when Runway was installed; pip install -v says why"
    names = [line.partition(" ")[2] for line in compiled]
    if not all(compiled_file(ROOT, name).exists() for name in names):
        return "its compiled modules are gone: install Runway again"
    try:
        current = [line_of(ROOT, name) for name in names]
    except FileNotFoundError:
        current = []
    if current == compiled:
        return None
    warnings.warn(
        "the source of the event loop has changed since it was compiled, so it runs interpreted, "
        f"at less than half the speed: install Runway again, or set {SWITCH}=1 and be told no more",
        RuntimeWarning,
        stacklevel=2,
    )
    return "its source has changed since it was compiled"


def _import_sources_only() -> None:
    loaders = (SourceFileLoader, SOURCE_SUFFIXES)
    for folder in FOLDERS:
        path = os.fspath(ROOT / folder)
        sys.path_importer_cache[path] = FileFinder(path, loaders)


def document(*kinds: type) -> None:
    """Give compiled classes the docstrings that their source has and mypyc drops."""
    if INTERPRETED_BECAUSE is not None:
        return
    for kind in kinds:
        source = ROOT.joinpath(*kind.__module__.split(".")).with_suffix(".py")
        text = source.read_text(encoding="utf-8")
        found = re.search(rf'^class {kind.__name__}\b.*?:\n    """(.*?)"""', text, re.M | re.S)
        kind.__doc__ = found and found[1]


INTERPRETED_BECAUSE: str | None = None
"""Why the event loop runs interpreted in this process; None: it runs compiled."""

if __package__:  # setup.py reads this file without the package
    INTERPRETED_BECAUSE = _why_interpreted()
    if INTERPRETED_BECAUSE is not None:
        _import_sources_only()
