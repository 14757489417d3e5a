"""What a saved trace carries beside its rows: notes, counts and the hash block size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.errors import WorkloadError
from simulator.trace import Trace

MARK = "runway_trace"
VERSION = 1
_FIRST = "# runway trace"


@dataclass(frozen=True, slots=True)
class Provenance:
    """The fields of `Trace` that are not columns."""

    notes: tuple[str, ...] = ()
    rows_in: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    hash_block_tokens: int | None = None

    @classmethod
    def of(cls, trace: Trace) -> Provenance:
        """Of a trace in memory."""
        return cls(trace.notes, trace.rows_in, dict(trace.dropped), trace.hash_block_tokens)

    def as_json(self) -> str:
        """One line of strict JSON."""
        return json.dumps(
            {
                MARK: VERSION,
                "notes": self.notes,
                "rows_in": self.rows_in,
                "dropped": self.dropped,
                "hash_block_tokens": self.hash_block_tokens,
            }
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> Provenance:
        """Back from `as_json`.

        Raises:
            WorkloadError: another version, or not what `as_json` writes.
        """
        try:
            found: dict[str, Any] = json.loads(text)  # Any: JSON, checked by the lines below
            if found.pop(MARK) != VERSION:
                raise WorkloadError(f"{where}: this Runway reads version {VERSION} of its format")
            return cls(**{**found, "notes": tuple(found["notes"])})
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, WorkloadError):
                raise
            raise WorkloadError(f"{where}: not a Runway trace header ({error})") from None

    def as_comments(self) -> list[str]:
        """Leading lines of a CSV, each starting with '# '."""
        lines = [f"{_FIRST} {VERSION}"]
        for name in ("rows_in", "dropped", "hash_block_tokens"):
            value = getattr(self, name)
            if value:
                lines.append(f"# {name} {json.dumps(value)}")
        return lines + [f"# note {as_cell(note)}" for note in self.notes]

    @classmethod
    def from_comments(cls, lines: list[str], where: str) -> Provenance | None:
        """Back from `as_comments`; None when the lines are not Runway's.

        Raises:
            WorkloadError: another version, or a broken line.
        """
        if not lines or not lines[0].startswith(_FIRST):
            return None
        if lines[0].removeprefix(_FIRST).strip() != str(VERSION):
            raise WorkloadError(
                f"{where}, line 1: {lines[0]!r}: this Runway reads version {VERSION} of its format"
            )
        values: dict[str, Any] = {}  # Any: JSON values by name
        notes = []
        for number, line in enumerate(lines[1:], start=2):
            name, _, text = line.removeprefix("#").strip().partition(" ")
            try:
                if name == "note":
                    notes.append(from_cell(text) or "")
                elif name in ("rows_in", "dropped", "hash_block_tokens"):
                    values[name] = json.loads(text)
            except ValueError:
                raise WorkloadError(f"{where}, line {number}: {line!r} is broken") from None
        return cls(notes=tuple(notes), **values)


def as_cell(text: str | None) -> str:
    """A name as a CSV cell: empty for None, quoted as JSON when plain text would be ambiguous.

    >>> as_cell("a"), as_cell(None), as_cell("")
    ('a', '', '""')
    """
    if text is None:
        return ""
    plain = text and text.isprintable() and text == text.strip() and text[0] != '"'
    return text if plain else json.dumps(text)


def from_cell(cell: str) -> str | None:
    """Back from `as_cell`.

    Raises:
        ValueError: a JSON string that does not parse.
    """
    if not cell:
        return None
    return str(json.loads(cell)) if cell[0] == '"' else cell
