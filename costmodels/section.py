"""`Section`: one mapping of a table file, read key by key; errors name file, line and key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from simulator.errors import TableFormatError, nearest

from .yaml_text import Key, Marks, Value


class Section:
    """A mapping inside a document.

    file: what errors call the document; marks: positions of its keys (may be empty);
    at: the keys that lead here.
    """

    __slots__ = ("at", "file", "marks", "values")

    def __init__(self, values: Value, *, file: str, marks: Marks, at: Key = ()) -> None:
        self.file, self.marks, self.at = file, marks, at
        if not isinstance(values, dict):
            what = ".".join(at) or "the document"
            raise TableFormatError(f"{self._where()}: {what} must be a mapping of keys to values")
        self.values: Mapping[str, Value] = values

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def name(self, key: str) -> str:
        """The full name of a key: `provenance.device`."""
        return ".".join((*self.at, key))

    def error(self, key: str, problem: str) -> TableFormatError:
        """An error about one key, that says where it stands."""
        return TableFormatError(f"{self._where(key)}: {self.name(key)} {problem}")

    def _where(self, key: str | None = None) -> str:
        full = self.at if key is None else (*self.at, key)
        mark = self.marks.get(full) or self.marks.get(self.at)
        return f"{self.file}:{mark[0]}:{mark[1]}" if mark else self.file

    def allow(self, known: Iterable[str], required: Iterable[str] = (), why: str = "") -> None:
        """Refuse keys that are not known, and the absence of those required (`why` they are)."""
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.error(
                    key, f"is not a known key{nearest(key, known)} (known: {', '.join(known)})"
                )
        missing = [self.name(key) for key in required if key not in self]
        if missing:
            reason = f": {why}" if why else ""
            raise TableFormatError(f"{self._where()}: {', '.join(missing)} missing{reason}")

    def section(self, key: str) -> Section:
        """The mapping under a key."""
        at = (*self.at, key)
        return Section(self.values.get(key), file=self.file, marks=self.marks, at=at)

    def text(self, key: str) -> str:
        """Non-empty text."""
        value = self.values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"must be text, is {value!r}")
        return value

    def number(self, key: str, minimum: float = 0.0) -> float:
        """A finite number, at least `minimum`."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, f"must be a number, is {value!r}")
        if not math.isfinite(value):
            raise self.error(key, f"must be finite, is {value}")
        if value < minimum:
            raise self.error(key, f"must be at least {minimum:g}, is {value:g}")
        return float(value)

    def whole(self, key: str, minimum: int = 1) -> int:
        """A whole number, at least `minimum`."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, f"must be a whole number, is {value!r}")
        self.number(key, minimum)
        return value
