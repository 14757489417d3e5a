"""Configurations that a search compares; those that come to the same are one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.config import RunConfig, load_config
from experiments.run import prepare
from experiments.workload import Workload
from simulator.errors import RunwayError

from .knobs import Settings

NOT_IDENTITY = ("rate", "slo", "steps", "timing")
"""Settings that an evaluation says for itself, or that change no number."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration of one scheduler. settings: the knobs' values.

    identity: all that decides its numbers at a rate, in one form; key: its digest.
    unused: knobs that its scheduler does not take. resolved: the settings as the run has them,
    defaults filled in. notes: settings that change less than their name says.
    """

    settings: Settings
    config: RunConfig = field(compare=False)
    identity: Mapping[str, Any] = field(compare=False)  # Any: YAML values
    key: str
    unused: tuple[str, ...] = field(compare=False)
    resolved: Mapping[str, Any] = field(compare=False)  # Any: YAML values
    effective_chunk_size: int | None = field(compare=False)
    notes: tuple[str, ...] = field(compare=False)


class Candidates:
    """From settings to candidates, for one scheduler. invalid: settings that cannot be run: why."""

    def __init__(self, base: Mapping[str, Any], scheduler: str, workload: Workload) -> None:
        """base: what all have in common; Any: values of any setting."""
        self.scheduler = scheduler
        self.invalid: dict[str, str] = {}
        self._base = {**base, "scheduler": scheduler}
        self._workload = workload

    def make(self, settings: Settings) -> Candidate | None:
        """The candidate, or None if it cannot be run; then `invalid` says why."""
        try:
            config = load_config(None, {**self._base, **settings})
            return _candidate(settings, config, self._workload)
        except RunwayError as error:
            self.invalid[in_words(settings)] = str(error)
            return None

    def reason(self, settings: Settings) -> str | None:
        """Why these settings cannot be run."""
        return self.invalid.get(in_words(settings))

    def distinct(self, every: Iterable[Settings]) -> list[Candidate]:
        """Those that can be run, the first of any that come to the same."""
        made = [self.make(settings) for settings in every]
        return list({c.key: c for c in reversed(made) if c is not None}.values())[::-1]


def in_words(settings: Settings) -> str:
    """
    >>> in_words({"chunk_size": None, "max_num_seqs": 64})
    'chunk_size none, max_num_seqs 64'
    """
    return ", ".join(f"{k} {'none' if v is None else v}" for k, v in settings.items())


def _candidate(settings: Settings, config: RunConfig, workload: Workload) -> Candidate:
    parts = prepare(config, workload=workload)
    saved = parts.config.saved()
    left_out = parts.policy.unused_fields
    identity = {k: v for k, v in saved.items() if k not in NOT_IDENTITY and k not in left_out}
    effective = parts.policy.effective_chunk_size
    if "chunk_size" not in left_out and effective is not None:
        identity["chunk_size"] = effective
    identity["max_num_batched_tokens"] = config.max_num_batched_tokens
    identity["kv"] = [parts.memory.cache.blocks, parts.memory.cache.block_size]
    text = json.dumps(identity, sort_keys=True, default=str)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    unused = tuple(name for name in settings if name in left_out)
    return Candidate(settings, config, identity, key, unused, saved, effective, parts.notes)
