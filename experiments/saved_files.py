"""Files of saved results, read back; a damaged one is told by name, with the way to a sound one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

SIMULATE = "simulate again"
SWEEP = "run the same `runway sweep` again"
SEARCH = "run the same `runway search` again"
COMPARE = "run `runway compare` again"
"""Remedies: what writes each kind of results."""


def saved_json(
    path: Path, *, needed: Sequence[str], remedy: str
) -> dict[str, Any]:  # Any: JSON values
    """The JSON object of a file. needed: keys it must hold, `a.b` being b in the object a.

    Raises:
        ConfigError: it cannot be read, is no JSON object, or a key is missing.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}): {remedy}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error}): {remedy}") from None
    if not isinstance(held, dict):
        raise ConfigError(f"{path}: holds a {type(held).__name__}, must be an object: {remedy}")
    missing = [name for name in needed if not _holds(held, name)]
    if missing:
        raise ConfigError(f"{path}: lacks {', '.join(missing[:3])}{_more(missing)}: {remedy}")
    return held


def saved_table(path: Path, *, needed: Sequence[str] = (), remedy: str) -> pd.DataFrame:
    """The table of a Parquet file. needed: columns it must have.

    Raises:
        ConfigError: it cannot be read, or a column is missing.
    """
    import pandas as pd
    from pyarrow import ArrowException

    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError, ArrowException) as error:
        raise ConfigError(f"{path}: cannot be read ({_line(error)}): {remedy}") from None
    missing = [name for name in needed if name not in frame]
    if missing:
        columns = f"lacks column {', '.join(missing[:3])}{_more(missing)}"
        raise ConfigError(f"{path}: {columns}: {remedy}")
    return frame


def _holds(held: Mapping[str, Any], name: str) -> bool:  # Any: JSON values
    first, _, rest = name.partition(".")
    if first not in held:
        return False
    return not rest or (isinstance(held[first], dict) and _holds(held[first], rest))


def _more(missing: Sequence[str]) -> str:
    return " ..." if len(missing) > 3 else ""


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
