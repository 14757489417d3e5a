"""Evaluations in batches, each done once: kept in memory and, atomically, on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.provenance import runway_version
from experiments.sweep.backends import Workers
from experiments.sweep.sharing import file_key
from experiments.sweep.store import write_atomically
from simulator.errors import ConfigError

from .candidates import Candidate
from .evaluate import GENERATED, Evaluation, Job, Replicate, evaluate, evaluation_of
from .limits import Objective

Ask = tuple[Candidate, float, int]
"""A candidate, a rate in requests/s, and the index of a replicate."""

Progress = Callable[[int, str], None]
"""Called with (evaluations so far, what is being looked for)."""


@dataclass(slots=True)
class Evaluator:
    """Runs what has not been run before, in processes, and remembers it.

    folder: where records are kept, so that a search that was stopped goes on where it was. The
    records are the same whatever the number of processes, and so is the order in `done`.
    files: what decides the numbers beside the settings: the content of the files they name.
    """

    workers: Workers
    folder: Path
    objective: Objective
    replicate_kind: str
    blocks: int
    files: dict[str, str]
    progress: Progress | None = None
    stage: str = ""
    done: dict[tuple[str, float, int], Evaluation] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    resumed: int = 0

    def __call__(self, asks: Sequence[Ask]) -> list[Evaluation]:
        """One evaluation per ask, in their order.

        Raises:
            ConfigError: a record cannot be written.
            RunwayError: a worker process was killed.
        """
        self.candidates |= {candidate.key: candidate for candidate, _, _ in asks}
        self._take_up(asks)
        jobs = {self._id(ask): self._job(ask) for ask in asks if self._id(ask) not in self.done}
        waiting = {job.key: name for name, job in jobs.items()}
        ready: dict[tuple[str, float, int], Evaluation] = {}
        for key, record in self.workers.run(evaluate, list(jobs.values())):
            name = waiting[key]
            self._keep(key, record)
            ready[name] = evaluation_of(name[1], name[2], record)
            self._tell(len(self.done) + len(ready))
        self.done |= {name: ready[name] for name in jobs}
        return [self.done[self._id(ask)] for ask in asks]

    def one(self, candidate: Candidate, rate: float, replicate: int = 0) -> Evaluation:
        """A single evaluation."""
        return self([(candidate, rate, replicate)])[0]

    def of(self, candidate: Candidate, replicate: int = 0) -> list[Evaluation]:
        """All evaluations of a candidate so far, by rate."""
        found = [
            e for (key, _, r), e in self.done.items() if (key, r) == (candidate.key, replicate)
        ]
        return sorted(found, key=lambda evaluation: evaluation.rate)

    def _take_up(self, asks: Sequence[Ask]) -> None:
        for ask in asks:
            name = self._id(ask)
            if name not in self.done:
                record = _read(self._path(self._job(ask).key))
                if record is not None:
                    self.done[name] = evaluation_of(name[1], name[2], record)
                    self.resumed += 1

    def _keep(self, key: str, record: dict[str, Any]) -> None:
        try:
            write_atomically(self._path(key), record)
        except OSError as error:
            raise ConfigError(
                f"cannot write results to {self.folder.parent}: {error.strerror or error}; what "
                "is done is kept: make room and run the same command again"
            ) from None

    def _tell(self, count: int) -> None:
        if self.progress is not None:
            self.progress(count, self.stage)

    @staticmethod
    def _id(ask: Ask) -> tuple[str, float, int]:
        candidate, rate, replicate = ask
        return candidate.key, rate, replicate

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _job(self, ask: Ask) -> Job:
        candidate, rate, index = ask
        blocks = 0 if self.replicate_kind == GENERATED else self.blocks
        replicate = Replicate(index, self.replicate_kind, blocks if index else 0)
        held = {
            "candidate": candidate.identity,
            "rate": rate,
            "replicate": [replicate.index, replicate.kind, replicate.blocks],
            "objective": self.objective.described(),
            "files": self.files,
            "runway_version": runway_version(),
        }
        text = json.dumps(held, sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()[:24]
        file = self.workers.handles.get(file_key(candidate.config) or "")
        return Job(key, candidate.config, rate, replicate, self.objective, file)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("error") is None else None
