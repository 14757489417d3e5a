"""What the packages export is what docs/api.md lists: no name more, none less."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

API = Path(__file__).resolve().parents[1] / "docs" / "api.md"


def listed() -> dict[str, list[str]]:
    """Module -> names, from the tables under the headings that name a module."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    for line in API.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `([\w.]+)`", line):
            names = found.setdefault(heading[1], [])
        elif line.startswith("| `"):
            names += re.findall(r"`(\w+)[^`]*`", line.split("|")[1])
    return found


@pytest.mark.parametrize("module", listed())
def test_the_exported_names_are_the_documented_ones(module: str) -> None:
    exported = importlib.import_module(module).__all__
    names = listed()[module]
    assert len(names) == len({*names}), "a name is listed twice"
    assert sorted(exported) == sorted(names)


@pytest.mark.parametrize("module", listed())
def test_every_exported_name_is_there_and_says_what_it_is(module: str) -> None:
    package = importlib.import_module(module)
    for name in package.__all__:
        value = getattr(package, name)
        assert not isinstance(value, type) or value.__doc__, f"{module}.{name} has no docstring"
