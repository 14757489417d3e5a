"""Trials of every shape, in memory and in a `.partial` file beside the output, line by line.

The first line says what is measured; a run is only resumed for the same. Every other line is one
trial of one shape: its samples by lap (nanoseconds), or why the shape was skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from .errors import CalibrationError
from .grid import Shape
from .trial import Trial, undisturbed

WHOLE = "whole step"
"""The name under which a step's time end to end is kept, beside its laps."""


def begun_with(path: Path) -> tuple[int | None, str | None]:
    """Threads and clock with which a `.partial` file was begun, None where it does not say."""
    try:
        with path.open(encoding="utf-8") as file:
            begun = json.loads(file.readline())
    except (OSError, ValueError):
        return None, None
    if not isinstance(begun, dict):
        return None, None
    threads, clock = begun.get("threads"), begun.get("clock")
    return threads if isinstance(threads, int) else None, str(clock) if clock else None


class TrialLog:
    """Samples by shape, that outlive the process.

    identity: what is measured; CalibrationError if the file is of something else, or cannot be
        written.
    """

    def __init__(self, path: Path, identity: Mapping[str, object], *, resume: bool) -> None:
        self.path = path
        self.skipped: dict[Shape, str] = {}
        self._whole: dict[Shape, dict[str, Trial]] = {}
        self._kernels: dict[Shape, dict[str, Trial]] = {}
        self.resumed = 0
        if resume and path.exists():
            self._read(identity)
        else:
            begun = json.dumps(identity, sort_keys=True) + "\n"
            try:
                path.write_text(begun, encoding="utf-8")
            except OSError as error:
                raise CalibrationError(f"cannot write {path}: {error.strerror or error}") from None

    def __iter__(self) -> Iterator[tuple[Shape, dict[str, Trial]]]:
        """Every (shape, raw trials by lap), kernels first, then whole steps."""
        for trials in (self._kernels, self._whole):
            yield from sorted(trials.items())

    def raw(self, shape: Shape, *, is_whole: bool) -> dict[str, Trial]:
        """All samples of a shape so far, by lap; of whole steps, under `WHOLE`."""
        return (self._whole if is_whole else self._kernels).get(shape, {})

    def kernels(self, shape: Shape) -> dict[str, Trial]:
        """Undisturbed samples of a shape's kernels, by lap."""
        return undisturbed(self.raw(shape, is_whole=False))

    def whole(self, shape: Shape) -> Trial | None:
        """Undisturbed samples of a whole step, None if there are none."""
        return undisturbed(self.raw(shape, is_whole=True)).get(WHOLE)

    def add(self, shape: Shape, trials: Mapping[str, Trial]) -> None:
        """Keep more samples of a shape."""
        samples = {name: [round(ns) for ns in trial.samples_ns] for name, trial in trials.items()}
        self._write({"shape": shape, "samples_ns": samples})
        self._keep(shape, samples)

    def skip(self, shape: Shape, reason: str) -> None:
        """Never time this shape."""
        self._write({"shape": shape, "skipped": reason})
        self.skipped[shape] = reason

    def _keep(self, shape: Shape, samples: Mapping[str, list[int]]) -> None:
        held = (self._whole if WHOLE in samples else self._kernels).setdefault(shape, {})
        for name, values in samples.items():
            held[name] = held.get(name, Trial(())) + Trial(tuple(map(float, values)))

    def _write(self, line: Mapping[str, object]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read(self, identity: Mapping[str, object]) -> None:
        text = self.path.read_text(encoding="utf-8")
        # A kill may have cut the last line: what was written of it is dropped.
        whole = text[: text.rfind("\n") + 1]
        first, *lines = whole.splitlines() or [""]
        if first != json.dumps(identity, sort_keys=True):
            raise CalibrationError(
                f"{self.path}: is of another model, device or setting: leave out --resume to "
                "start again, or give the same settings"
            )
        self.path.write_text(whole, encoding="utf-8")
        for line in lines:
            told = json.loads(line)
            shape = Shape(*told["shape"])
            if "skipped" in told:
                self.skipped[shape] = told["skipped"]
            else:
                self._keep(shape, told["samples_ns"])
        self.resumed = len(lines)
