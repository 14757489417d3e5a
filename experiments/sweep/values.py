"""Names and values of swept settings: aliases resolved, values in their one form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.config import RunConfig, load_config
from experiments.explain import aliases
from simulator.errors import ConfigError, nearest

Label = Callable[[str], str]
"""How to name a setting to the user: its flag, or `file:line:column: key`."""

Setting = Any
"""A value of a setting: Any because settings are numbers, texts, mappings or None."""

NOT_SWEPT = ("out", "steps", "timing", "json_summary", "quiet")
"""Settings that say what to write or print; they change no number."""


def by_setting(given: Mapping[str, Any], label: Label) -> dict[str, Any]:  # Any: raw values
    """Dashes and aliases replaced by the name of the setting.

    Raises:
        ConfigError: no such setting (with the nearest name), one that cannot be swept, or two
            names of one setting.
    """
    other = aliases(RunConfig.model_fields)
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = str(key).replace("-", "_")
        name = other.get(name, name)
        if name not in RunConfig.model_fields:
            known = [*RunConfig.model_fields, *other]
            raise ConfigError(f"{label(key)}: no such setting{nearest(name, known)}")
        if name in NOT_SWEPT:
            raise ConfigError(f"{label(key)}: says what to write, not what to simulate: drop it")
        if name in found:
            raise ConfigError(f"{label(key)}: the same setting as {name}, which is given too")
        found[name] = value
    return found


def swept_values(name: str, values: object, label: Label) -> tuple[Any, ...]:
    """The values of one swept setting, each in its one form; `none` and -1 may both mean None.

    A value that is not acceptable stays as it was written: its points become `invalid`.
    Any: a swept setting may be a number, a text, a truth value or None.

    >>> swept_values("chunk_size", ["256", "none", 0], str)
    (256, None, 0)

    Raises:
        ConfigError: not a list, an empty list, or a value that is there twice.
    """
    if not isinstance(values, (list, tuple)) or not values:
        raise ConfigError(f"{label(name)}: must be a list of values, such as [256, 512]")
    found: list[Any] = []
    for value in values:
        form = one_form(name, value)
        if form in found:
            raise ConfigError(f"{label(name)}: {value!r} is in the list twice: drop one")
        found.append(form)
    return tuple(found)


def one_form(name: str, value: object) -> Setting:
    """What `RunConfig` makes of a value, or the value as written if it is not acceptable.

    Text for values that are no scalars.
    """
    try:
        form = getattr(load_config(None, {name: value}), name)
    except ConfigError:
        form = value
    return form if form is None or isinstance(form, int | float | str) else _text(value)


def _text(value: object) -> str:
    """As on the command line.

    >>> _text({"chat": {"ttft": "1s", "tpot": 50}}), _text([60, None])
    ('chat.ttft=1s,chat.tpot=50', '60:')
    """
    if isinstance(value, Mapping):
        return ",".join(_pair(str(key), held) for key, held in value.items())
    if isinstance(value, list | tuple):
        texts = ["" if held is None else str(held) for held in value]
        return (":" if len(texts) == 2 and "=" not in texts[0] else ",").join(texts)
    return str(value)


def _pair(key: str, held: object) -> str:
    if isinstance(held, Mapping):
        return ",".join(f"{key}.{name}={limit}" for name, limit in held.items())
    return f"{key}={held}"
