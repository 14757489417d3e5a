"""Pydantic's complaints in a user's words, with the flag or the file's line in front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from simulator.errors import nearest

from .option import option_of

Fields = Mapping[str, FieldInfo]


def explain(error: ValidationError, fields: Fields, label: Callable[[str], str]) -> str:
    """One line per bad field. label: how to name a field, its flag or `file:line:column`."""
    return "\n".join(_sentence(detail, fields, label) for detail in error.errors())


def flag_of(name: str, fields: Fields) -> str:
    """The command-line flag of a field: its name with dashes, unless its option says otherwise."""
    field = fields.get(name)
    return (option_of(field).flag if field else None) or "--" + name.replace("_", "-")


def aliases(fields: Fields) -> dict[str, str]:
    """Other accepted names, and the field each stands for."""
    return {alias: name for name, field in fields.items() for alias in option_of(field).aliases}


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The words a field with a fixed choice accepts; none for other fields."""
    options = (field.annotation, *get_args(field.annotation))
    words = (word for kind in options for word in get_args(kind))
    return tuple(dict.fromkeys(word for word in words if isinstance(word, str)))


def _sentence(
    detail: Any, fields: Fields, label: Callable[[str], str]
) -> str:  # Any: pydantic's ErrorDetails
    name = str(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        return f"{label(name)}: no such setting{nearest(name, [*fields, *aliases(fields)])}"
    text = str(detail["ctx"]["error"]) if detail["type"] == "value_error" else str(detail["msg"])
    if detail["type"].startswith("bool"):
        text = "must be true or false"
    if detail["input"] is None:
        return f"{label(name)}: must have a value"
    if detail["type"] == "literal_error":
        words = choices(fields[name])
        text = f"must be {' or '.join(words)}{nearest(str(detail['input']), words)}"
    return f"{label(name)} {_spelt(detail['input'])}: {text}"


def _spelt(value: object) -> str:
    """A value as it was written; a flag that may be repeated gives a list of texts."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(map(repr, value))
    return repr(value) if isinstance(value, str | list | dict) else str(value)
