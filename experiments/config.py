"""Reading a `RunConfig` from a YAML file and flags, which win over the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from simulator.errors import ConfigError

from .explain import aliases, explain
from .explain import flag_of as _flag_of
from .run_config import RunConfig
from .yaml_file import read_yaml

__all__ = ["RunConfig", "flag_of", "load_config"]


def load_config(
    path: Path | None = None, overrides: Mapping[str, object] | None = None
) -> RunConfig:
    """The config of a YAML file (if any) with `overrides` (field or alias to value) on top.

    Raises:
        ConfigError: naming the file, line and column of a bad key or value, or the flag.
    """
    file = read_yaml(path) if path else None
    places = file.places if file else {}
    if "grid" in places:
        raise ConfigError(f"{places['grid']}: grid makes it a sweep: runway sweep {path}")
    values = _by_field(file.values, lambda key: f"{places[key]}: {key}") if file else {}
    given = _by_field(overrides or {}, flag_of)
    where = _by_field({key: f"{place}: {key}" for key, place in places.items()}, str)

    def label(name: str) -> str:
        return flag_of(name) if name in given else str(where.get(name, name))

    try:
        return RunConfig(**{**values, **given})
    except ConfigError as error:
        if isinstance(error.__cause__, ValidationError):
            text = explain(error.__cause__, RunConfig.model_fields, label)
            raise ConfigError(text) from None
        raise


def flag_of(name: str) -> str:
    """The command-line flag of a field.

    >>> flag_of("max_num_seqs"), flag_of("scheduler_args")
    ('--max-num-seqs', '--scheduler-arg')
    """
    return _flag_of(name, RunConfig.model_fields)


def _by_field(given: Mapping[str, Any], label: Callable[[str], str]) -> dict[str, Any]:
    """Aliases replaced by their field. Any: raw values of any field."""
    other = aliases(RunConfig.model_fields)
    found: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for key, value in given.items():
        name = other.get(key, key)
        if name in found:
            raise ConfigError(
                f"{label(key)}: the same setting as {spelt[name]}, which is given too"
            )
        found[name], spelt[name] = value, key
    return found
