"""`ConfigJson`: a model's `config.json`, read key by key; errors name file and key."""

from __future__ import annotations

import json
from pathlib import Path

from .errors import CalibrationError

ROPE_THETA = 10_000.0


class ConfigJson:
    """The keys of a file. name: of the model: the file's, or its folder's if that is `config`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._raw = _read(path)
        self.name = path.stem if path.stem != "config" else path.resolve().parent.name

    def get(self, key: str, default: object = None) -> object:
        """A value, or the default if the key is absent."""
        return self._raw.get(key, default)

    def error(self, problem: str) -> CalibrationError:
        """An error that names the file."""
        return CalibrationError(f"{self._path}: {problem}")

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number, at least 1; the default if the key is absent or null."""
        value = self._raw.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(f"{key} is {value!r}: must be a whole number, at least 1")
        return value

    def rope_theta(self) -> float:
        """Base of the rotations: its own key, or, in newer files, one of `rope_parameters`."""
        nested = self._raw.get("rope_parameters")
        value = nested.get("rope_theta") if isinstance(nested, dict) else None
        value = self._raw.get("rope_theta", ROPE_THETA if value is None else value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self.error(f"rope_theta is {value!r}: must be a number above 0")
        return float(value)


def _read(path: Path) -> dict[str, object]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CalibrationError(f"{path}: no such file: give a model's config.json") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path}: cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        at = f"{path}:{error.lineno}:{error.colno}"
        raise CalibrationError(f"{at}: not JSON: {error.msg}") from None
    if not isinstance(raw, dict):
        raise CalibrationError(f"{path}: must be a JSON object, as in a model's config.json")
    return raw
