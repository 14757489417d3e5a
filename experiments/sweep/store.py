"""Finished points on disk, so that a sweep that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.config import RunConfig
from experiments.provenance import file_identity, runway_version
from experiments.results import json_text, refuse_file
from simulator.errors import ConfigError

from .spec import SweepSpec

Record = dict[str, Any]
"""What is kept of a point. Any: JSON values."""

_FILES = ("trace", "scheduler", "cost_model", "model")
"""Settings that may name a file whose content decides the numbers."""


class PointStore:
    """`DIR/points/`: `sweep.json`, what was asked, and `<index>-<config hash>.json` a point.

    Every file is written beside its place and moved in, so a file that is there is whole,
    whenever the process was killed.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / "points"

    def open(self, spec: SweepSpec) -> None:
        """Make the folder for this sweep, or take up what is there.

        Raises:
            ConfigError: the folder belongs to another sweep or to a run, or cannot be written to.
        """
        refuse_file(self.folder.parent)
        asked = identity(spec)
        marker = self.folder / "sweep.json"
        found = _read(marker)
        if found is not None and found != asked:
            raise ConfigError(
                f"{self.folder.parent} holds points of another sweep "
                f"({_difference(found, asked)}): give another folder, or remove "
                f"{self.folder} to start again"
            )
        if (self.folder.parent / "summary.json").exists():
            raise ConfigError(
                f"{self.folder.parent} holds other results (summary.json): give another folder, "
                "or remove them first"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if found is None:
                write_atomically(marker, asked)
        except OSError as error:
            raise ConfigError(
                f"cannot write results to {self.folder.parent}: {error.strerror or error}"
            ) from None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Where a full disk or a folder gone read-only is one message, not a traceback.

        Drafts that a killed process left are removed at the end.

        Raises:
            ConfigError: a file could not be written in here.
        """
        try:
            yield
            for draft in self.folder.glob(".*.tmp"):
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(
                f"cannot write results to {self.folder.parent}: {error.strerror or error}; what "
                "is done is kept: make room and run the same command again"
            ) from None

    def keep(self, index: int, config: RunConfig, record: Mapping[str, Any]) -> None:
        """Write the record of a run of a point. Any: JSON values.

        Raises:
            OSError: it cannot be written.
        """
        write_atomically(self._path(index, config), record)

    def finished(self, index: int, config: RunConfig) -> Record | None:
        """The record of a run that came to its end; None if it has to run (again)."""
        record = _read(self._path(index, config))
        return record if record and record["status"] in ("ok", "invalid") else None

    def _path(self, index: int, config: RunConfig) -> Path:
        return self.folder / f"{index:06d}-{_digest(config.saved())[:16]}.json"


def identity(spec: SweepSpec) -> Record:
    """All that decides a sweep's numbers: settings, the content of the files they name, version."""
    asked: Record = {
        "base": dict(spec.base),
        "grid": {name: list(values) for name, values in spec.grid.items()},
        "files": named_files(
            [*spec.base.items(), *(held for p in spec.points() for held in p.settings.items())]
        ),
        "runway_version": runway_version(),
    }
    if spec.variants:
        asked["variants"] = [{"name": each.name, **each.settings} for each in spec.variants]
    if spec.samples:
        asked["samples"] = spec.samples.written()
    if spec.seeds:
        asked["seeds"] = list(spec.seeds)
    as_it_is_read_back: Record = json.loads(json.dumps(asked, default=str))
    return as_it_is_read_back


def write_atomically(path: Path, record: Mapping[str, Any]) -> None:  # Any: JSON values
    """Strict JSON, whole or not at all, even if the machine stops in the middle.

    Raises:
        OSError: it cannot be written; then nothing stays.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(json_text(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _read(path: Path) -> Record | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def named_files(settings: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """File -> the SHA-256 of its content: traces, tables, models, policies as `path.py:Class`.

    settings: (name, value) pairs; Any: values of any setting.
    """
    texts = [str(v) for name, v in settings if name in _FILES and v is not None]
    paths = [Path(text.rpartition(":")[0] if ".py:" in text else text) for text in texts]
    return {str(p): file_identity(p)["sha256"] for p in dict.fromkeys(paths) if p.is_file()}


def _digest(content: Mapping[str, Any]) -> str:  # Any: JSON values
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _difference(found: Record, asked: Record) -> str:
    """The first thing that is not the same, in words."""
    for section in ("grid", "base", "files"):
        before, now = found.get(section, {}), asked[section]
        for name in sorted({*before, *now}):
            if before.get(name) != now.get(name):
                where = "the content of " if section == "files" else ""
                changed = "" if where else f" was {before.get(name)}, now {now.get(name)}"
                return f"{where}{name}{changed or ' changed'}"
    for section in ("variants", "samples", "seeds"):
        if found.get(section) != asked.get(section):
            return f"{section} was {found.get(section)}, now {asked.get(section)}"
    return f"by Runway {found.get('runway_version')}, this is {asked['runway_version']}"
