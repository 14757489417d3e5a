"""YAML files as mappings that remember the line and column of every key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simulator.errors import ConfigError

TRACE = "a trace is given with --trace"


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The top-level mapping of a file. `places` holds `file:line:column` of each key, 1-based."""

    path: Path
    values: dict[str, Any]  # Any: what YAML can hold
    places: dict[str, str]


def read_yaml(path: Path) -> YamlFile:
    """Read a mapping; keys may be written with dashes.

    Raises:
        ConfigError: no such file, not YAML, not a mapping, or a key twice; with line and column.
    """
    try:
        node = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, name a YAML file{_in_folder(path)}") from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file ({error.reason}), {TRACE}") from None
    except yaml.YAMLError as error:
        raise ConfigError(_broken(path, error)) from None
    if node is None:
        return YamlFile(path, {}, {})
    if not isinstance(node, yaml.MappingNode):
        raise ConfigError(f"{_place(path, node)}: must be `key: value` lines, {TRACE}")
    return _mapping(path, node)


def _in_folder(path: Path) -> str:
    """The file of a results folder that repeats what made it."""
    found = [path / name for name in ("config.yaml", "sweep.yaml") if (path / name).is_file()]
    return f", such as {found[0]}" if found else ""


def _mapping(path: Path, node: yaml.MappingNode) -> YamlFile:
    values: dict[str, Any] = {}  # Any: what YAML can hold
    places: dict[str, str] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise ConfigError(f"{_place(path, key_node)}: a key must be one word")
        key = str(key_node.value).replace("-", "_")
        if key in values:
            raise ConfigError(
                f"{_place(path, key_node)}: key {key} is given twice, first at {places[key]}"
            )
        values[key] = _construct(path, value_node)
        places[key] = _place(path, key_node)
    return YamlFile(path, values, places)


def _construct(path: Path, node: yaml.Node) -> Any:  # Any: what YAML can hold
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(_broken(path, error)) from None
    finally:
        loader.dispose()


def _place(path: Path, node: yaml.Node) -> str:
    return f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def _broken(path: Path, error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    return f"{where}: not valid YAML: {getattr(error, 'problem', None) or error}"
