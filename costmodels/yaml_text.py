"""YAML with positions: every key knows its line and column, so an error can point at it.

Two departures from PyYAML's defaults, both towards YAML 1.2: `1e-5` is a number (PyYAML wants
`1.0e-5`), and a date stays text. A key written twice is an error instead of the last one winning.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.errors import TableFormatError

if TYPE_CHECKING:
    import yaml  # elsewhere imported by the functions that need it: a bare machine may lack it

Value = None | bool | int | float | str | list["Value"] | dict[str, "Value"]
Key = tuple[str, ...]
Marks = dict[Key, tuple[int, int]]

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_TRUE = {"true", "yes", "on"}


def read_yaml(path: Path) -> tuple[Value, Marks]:
    """The document in `path`, and the 1-based (line, column) of every key in it.

    Raises TableFormatError, with file, line and column, for anything unreadable.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TableFormatError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise TableFormatError(f"{path}: is a directory, a cost table is a YAML file") from None
    except OSError as error:
        raise TableFormatError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TableFormatError(f"{path}: is not UTF-8 text, a cost table is a YAML file") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> tuple[Value, Marks]:
    """As `read_yaml`, from text; `name` is what errors call it.

    >>> parse_yaml("a: {b: 1e-5}", "x.yaml")
    ({'a': {'b': 1e-05}}, {('a',): (1, 1), ('a', 'b'): (1, 5)})
    """
    import yaml

    loader = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        node = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise TableFormatError(f"{name}{at}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise TableFormatError(f"{name}: not YAML: {error}") from None
    marks: Marks = {}
    return (None if node is None else _value(node, (), marks, name)), marks


def yaml_of(document: Value) -> str:
    """The YAML of a document: one key a line, in order, lists on one line.

    >>> yaml_of({"b": [1, 2], "a": {"c": 0.5}})
    'b: [1, 2]\\na:\\n  c: 0.5\\n'
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    Dumper.add_representer(list, _on_one_line)
    text: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, width=96, allow_unicode=True)
    return text


def _on_one_line(dumper: yaml.SafeDumper, values: list[Value]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)


def _value(node: yaml.Node, at: Key, marks: Marks, name: str) -> Value:
    import yaml

    if isinstance(node, yaml.MappingNode):
        return _mapping(node, at, marks, name)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*at, str(i)), marks, name) for i, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode), node  # YAML has no fourth kind of node
    return _scalar(node)


def _mapping(node: yaml.MappingNode, at: Key, marks: Marks, name: str) -> dict[str, Value]:
    result: dict[str, Value] = {}
    for key_node, value_node in node.value:
        line, column = key_node.start_mark.line + 1, key_node.start_mark.column + 1
        if key_node.id != "scalar":
            raise TableFormatError(f"{name}:{line}:{column}: a key must be a word")
        key: str = key_node.value
        if key in result:
            raise TableFormatError(f"{name}:{line}:{column}: {key} is written twice: keep one")
        marks[*at, key] = (line, column)
        result[key] = _value(value_node, (*at, key), marks, name)
    return result


def _scalar(node: yaml.ScalarNode) -> Value:
    text: str = node.value
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in _TRUE
    plain = not node.style
    if plain and re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    if plain and _NUMBER.fullmatch(text):
        return float(text)
    if kind == "float" and text.lower().lstrip("+-") in {".nan", ".inf"}:
        return float(text.replace(".", ""))
    return text
