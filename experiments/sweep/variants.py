"""Named variants: a sweep over configurations that differ in more than one setting at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulator.errors import ConfigError

from .values import Label, Setting, by_setting, one_form

COLUMN = "variant"


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration by name. settings: what it sets on top of the base."""

    name: str
    settings: Mapping[str, Setting]


def read_variants(given: object, label: Label) -> tuple[Variant, ...]:
    """The `variants:` section: a list of mappings, each with a `name` and its settings.

    Raises:
        ConfigError: not such a list, or a name that is missing or used twice.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise ConfigError(f"{label('variants')}: must be a list, an item `- name: NAME` each")
    variants = [_variant(each, label) for each in given]
    _refuse_doubles(variants, label)
    return tuple(variants)


def read_variant_flags(texts: Sequence[str], label: Label) -> tuple[Variant, ...]:
    """Variants from the command line, each as NAME:SETTING=VALUE,SETTING=VALUE.

    >>> read_variant_flags(["small:chunk_size=256,scheduler=vllm"], str)
    (Variant(name='small', settings={'chunk_size': 256, 'scheduler': 'vllm'}),)

    Raises:
        ConfigError: not of that form, or a name used twice.
    """
    variants = []
    for text in texts:
        name, _, rest = text.partition(":")
        pairs = [pair.partition("=") for pair in rest.split(",")]
        if not name.strip() or not all(key.strip() and equals for key, equals, _ in pairs):
            raise ConfigError(f"{label('variant')} {text!r}: must be NAME:SETTING=VALUE,...")
        settings = {key.strip(): value.strip() for key, _, value in pairs}
        variants.append(_variant({"name": name.strip(), **settings}, label))
    _refuse_doubles(variants, label)
    return tuple(variants)


def _variant(given: object, label: Label) -> Variant:
    if not isinstance(given, Mapping) or given.get("name") in (None, ""):
        raise ConfigError(f"{label('variants')}: each needs a name, as `- name: NAME`")
    held = {key: value for key, value in given.items() if key != "name"}
    settings = by_setting(held, label)
    return Variant(str(given["name"]), {k: one_form(k, value) for k, value in settings.items()})


def _refuse_doubles(variants: Sequence[Variant], label: Label) -> None:
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{label('variants')}: {name} is the name of two: rename one")
