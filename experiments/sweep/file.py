"""The YAML file of a sweep: `base:` with run settings; `grid:`, `variants:`, `samples:` with what
varies; `seeds:` with how often each point is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from experiments.config import RunConfig, flag_of, load_config
from experiments.explain import aliases
from experiments.yaml_file import read_yaml
from simulator.errors import ConfigError, nearest

from .samples import Samples, read_samples
from .values import Label, Setting, by_setting, swept_values
from .variants import Variant, read_variants

SECTIONS = ("base", "grid", "variants", "samples", "seeds")
RECORDED = ("points", "confidence", "slo", "setting", "notes", "provenance")
"""What a sweep adds to the sweep.yaml that it writes; ignored when that file is run again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a file, or the flags, say of a sweep. seeds: as written, how many or which."""

    base: Mapping[str, Setting] = field(default_factory=dict)
    grid: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    samples: Samples | None = None
    seeds: object = None


def read_sweep_file(path: Path) -> Asked:
    """What a file asks for.

    Raises:
        ConfigError: with file, line and column: another key, an unknown setting, a bad base
            value, or a list that is empty or has a value twice.
    """
    file = read_yaml(path)
    for key in file.values:
        if key not in (*SECTIONS, *RECORDED):
            raise ConfigError(f"{file.places[key]}: {_misplaced(key)}")
    places = _places(path)
    found = {}
    for section in SECTIONS[:2]:
        settings = file.values.get(section) or {}
        if not isinstance(settings, dict):
            raise ConfigError(f"{file.places[section]}: {section} must be `setting: value` lines")
        label = _label(places, section, path)
        found[section] = (by_setting(settings, label), label)
    base, label = found["base"]
    for name, value in base.items():
        _check(name, value, label)
    grid, label = found["grid"]
    for name in grid:
        if name in base:
            raise ConfigError(f"{label(name)} is in base and grid: leave it in one of them")
    variants, samples = file.values.get("variants"), file.values.get("samples")

    def at(section: str) -> Label:
        return lambda name: f"{file.places[section]}: {name}"

    return Asked(
        base,
        {name: swept_values(name, values, label) for name, values in grid.items()},
        read_variants(variants, at("variants")) if variants is not None else (),
        read_samples(samples, at("samples")) if samples is not None else None,
        file.values.get("seeds"),
    )


def _misplaced(key: str) -> str:
    if key in RunConfig.model_fields or key in aliases(RunConfig.model_fields):
        return f"put {key} under `base:`, or under `grid:` with a list of values"
    known = f"{', '.join(SECTIONS[:-1])} and {SECTIONS[-1]}"
    return f"a sweep has the keys {known}, not {key}{nearest(key, SECTIONS)}"


def _check(name: str, value: object, label: Label) -> None:
    try:
        load_config(None, {name: value})
    except ConfigError as error:
        text = str(error).removeprefix(f"{flag_of(name)} ")
        raise ConfigError(f"{label(name)} {text}") from None


def _label(places: dict[tuple[str, str], str], section: str, path: Path) -> Label:
    def label(name: str) -> str:
        return f"{places.get((section, name.replace('-', '_')), path)}: {name}"

    return label


def _places(path: Path) -> dict[tuple[str, str], str]:
    """(section, key) -> `file:line:column`, 1-based, of the keys inside the sections."""
    top = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
    found: dict[tuple[str, str], str] = {}
    for section, body in top.value if isinstance(top, yaml.MappingNode) else []:
        for key, _ in body.value if isinstance(body, yaml.MappingNode) else []:
            mark = key.start_mark
            name = str(key.value).replace("-", "_")
            found[str(section.value), name] = f"{path}:{mark.line + 1}:{mark.column + 1}"
    return found
