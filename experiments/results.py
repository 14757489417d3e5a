"""The results folder: written beside its place and moved in when complete, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from simulator.errors import ConfigError
from simulator.output import whole_file

RUN_FILES = (
    *("summary.json", "config.yaml", "requests.parquet"),
    *("steps.parquet", "tokens.parquet", "preemptions.parquet"),
)
RUN_FIGURES = tuple(
    f"figures/{name}.png" for name in ("latencies", "load", "clients", "waterfall", "timeline")
)
"""What `runway plot` may draw of a run."""
REPORT = "report.html"
PAGE_MARK = '<p class="kicker">Runway ·'
"""In every page that `runway report` writes."""
MARKED = {REPORT: PAGE_MARK, "trace.json": '"runway_version":'}
"""Other files made of a run -> what stands near the start of those that Runway wrote."""
_START = 1 << 16

SWEEP_FILES = ("sweep.parquet", "sweep.csv", "sweep.yaml", "timelines.parquet")
SEARCH_FILES = ("search.json", "evaluations.parquet")
COMPARE_FILES = ("compare.json", "compared-requests.parquet", "distributions.parquet", "figures")


@contextmanager
def results_folder(out: Path, *, owned: tuple[str, ...] = RUN_FILES) -> Iterator[Path]:
    """A draft folder to write into; on a clean exit its files move to `out`, else nothing stays.

    Files of `out` that are not in `owned` are left alone; those in `owned` are replaced, and
    removed if the draft does not have them. If an earlier run is replaced, the figures, the
    report and the trace that were made of it go too. The draft is made at once, so a place that
    cannot be written to is found before any work is done.

    Raises:
        ConfigError: `out` is a file, holds the other kind of results, or cannot be written to.
    """
    _refuse_other_kind(out, owned)
    created = _missing_parents(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.draft-", dir=out.parent))
    except OSError as error:
        _remove_empty(created)
        raise ConfigError(f"cannot write results to {out}: {error.strerror or error}") from None
    try:
        yield draft
        _publish(draft, out, owned)
    except OSError as error:
        raise ConfigError(f"cannot write results to {out}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _remove_empty(created)


def write_json(path: Path, content: Mapping[str, Any]) -> None:  # Any: JSON values
    """Strict JSON: no NaN, no Infinity; two-space indent, a newline at the end."""
    path.write_text(json_text(content) + "\n", encoding="utf-8")


def json_text(content: Mapping[str, Any]) -> str:  # Any: JSON values
    """As `write_json`, as text.

    >>> print(json_text({"ttft_ms": None}))
    {
      "ttft_ms": null
    }
    """
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)


def write_whole(path: Path, content: bytes) -> None:
    """A single file, whole or not at all; its folder is made.

    Raises:
        ConfigError: the place cannot be written to.
    """
    with whole_file(path) as draft:
        draft.write_bytes(content)


def write_yaml(path: Path, content: Mapping[str, Any], heading: str) -> None:  # Any: YAML values
    """A mapping in its own order under a comment line."""
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    path.write_text(f"# {heading}\n{text}", encoding="utf-8")


def refuse_file(out: Path) -> None:
    """Raise ConfigError where a folder for results is a file."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"cannot write results to {out}: it is a file, give a folder")


def _refuse_other_kind(out: Path, owned: tuple[str, ...]) -> None:
    refuse_file(out)
    markers = (RUN_FILES[0], SWEEP_FILES[0], SEARCH_FILES[0], COMPARE_FILES[0])
    for name in markers:
        if name not in owned and (out / name).exists():
            raise ConfigError(
                f"{out} holds other results ({name}): give another folder, or remove them first"
            )


def _missing_parents(out: Path) -> list[Path]:
    """Folders above `out` that do not exist yet, innermost first."""
    return [parent for parent in out.parents if not parent.exists()]


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def _publish(draft: Path, out: Path, owned: tuple[str, ...]) -> None:
    draft.chmod(0o777 & ~_umask())
    if not out.exists():
        draft.rename(out)
        return
    if owned == RUN_FILES and (out / RUN_FILES[0]).is_file():
        _remove_derived(out)
    made = sorted(draft.iterdir())
    for file in made:
        _replace(file, out / file.name)
    for name in set(owned) - {file.name for file in made}:
        (out / name).unlink(missing_ok=True)


def _remove_derived(out: Path) -> None:
    """What Runway made of the run that was here: beside another run it would mislead."""
    figures = out / "figures"
    if figures.is_dir() and not figures.is_symlink():
        for name in RUN_FIGURES:
            (out / name).unlink(missing_ok=True)
        if not any(figures.iterdir()):
            figures.rmdir()
    for name, mark in MARKED.items():
        if (out / name).is_file() and mark.encode() in _start(out / name):
            (out / name).unlink()


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_START)


def _replace(file: Path, target: Path) -> None:
    if file.is_dir() and target.is_dir():
        shutil.rmtree(target)
    os.replace(file, target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
