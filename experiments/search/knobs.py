"""The settings that a search may turn: their values, or the ranges to draw them from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from experiments.config import RunConfig, flag_of
from experiments.explain import aliases
from experiments.sweep.point import WORKLOAD_SETTINGS
from experiments.sweep.samples import Choice, Range, is_sampled, read_domain
from experiments.sweep.values import Setting, by_setting, swept_values
from simulator.errors import ConfigError

USUAL: Mapping[str, tuple[Setting, ...]] = {
    "chunk_size": (256, 512, 1024, 2048, None),
    "max_num_batched_tokens": (512, 1024, 2048, 4096, 8192, 16384),
    "max_num_seqs": (32, 64, 128, 256, 512),
    "block_size": (16, 32),
    "enable_prefix_caching": (True, False),
    "async_scheduling": (True, False),
    "scheduler_reserve_full_isl": (True, False),
    "watermark": (0.0, 0.01, 0.05),
}
"""Values that are tried when a knob is named without any."""

Settings = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Knobs:
    """Knob -> what it may be. A space with a range in it has no end and is sampled."""

    domains: Mapping[str, Choice | Range]

    @property
    def size(self) -> int | None:
        """Number of combinations; None if a range is among them."""
        choices = [domain for domain in self.domains.values() if isinstance(domain, Choice)]
        if len(choices) < len(self.domains):
            return None
        return prod(len(choice.values) for choice in choices)

    def combinations(self) -> list[Settings]:
        """Every combination of a finite space, the last knob changing fastest.

        >>> [*Knobs({"rate": Choice((1, 2)), "seed": Choice((0,))}).combinations()]
        [{'rate': 1, 'seed': 0}, {'rate': 2, 'seed': 0}]
        """
        levels = [d.values for d in self.domains.values() if isinstance(d, Choice)]
        return [dict(zip(self.domains, cell, strict=True)) for cell in product(*levels)]

    def levels(self, name: str) -> tuple[Setting, ...]:
        """The values of a knob, or five of a range, for its sensitivity."""
        domain = self.domains[name]
        if isinstance(domain, Choice):
            return domain.values
        return tuple(dict.fromkeys(domain.at(share) for share in (0.0, 0.25, 0.5, 0.75, 0.9999)))

    def described(self) -> dict[str, object]:
        """For search.json."""
        return {name: domain.written() for name, domain in self.domains.items()}


def read_knobs(texts: Sequence[str], lists: Mapping[str, Sequence[str]] | None = None) -> Knobs:
    """Knobs as written: `chunk_size`, `max_num_seqs=64,128`, `chunk_size=log:128..4096`.

    Commas separate knobs as well as values: what follows a comma is a knob if a setting has that
    name. lists: settings that were given several values as flags.

    >>> read_knobs(["max_num_seqs=64,128,block_size"]).domains
    {'max_num_seqs': Choice(values=(64, 128)), 'block_size': Choice(values=(16, 32))}

    Raises:
        ConfigError: no such setting, one that makes the workload, one without usual values, or a
            value that it cannot have.
    """
    written: dict[str, list[str]] = {}
    for text in texts:
        current = ""
        for piece in text.split(","):
            name, equals, value = piece.partition("=")
            if equals or _is_setting(name) or not current:
                current = name.strip()
                written.setdefault(current, [])
            if equals or current != name.strip():
                written[current].append((value if equals else piece).strip())
    for name, values in (lists or {}).items():
        written.setdefault(name, list(values))
    named = by_setting(written, lambda name: f"--over {name}")
    return Knobs({name: _domain(name, values) for name, values in named.items()})


def _is_setting(name: str) -> bool:
    plain = name.strip().replace("-", "_")
    return plain in RunConfig.model_fields or plain in aliases(RunConfig.model_fields)


def _domain(name: str, values: list[str]) -> Choice | Range:
    def label(which: str) -> str:
        return f"--over {which}"

    if name in WORKLOAD_SETTINGS:
        raise ConfigError(
            f"--over {name}: makes the workload, and a search compares configurations on one: "
            f"give one {flag_of(name)}"
        )
    if name == "scheduler":
        raise ConfigError("--over scheduler: give --schedulers, each gets its own answer")
    if not values:
        if name not in USUAL:
            raise ConfigError(
                f"--over {name}: has no usual values, give them: --over {name}=VALUE,VALUE or "
                f"{name}=LOW..HIGH (known without: {', '.join(USUAL)})"
            )
        return Choice(USUAL[name])
    if len(values) == 1 and is_sampled(values[0]):
        return read_domain(name, values[0], label)
    found = swept_values(name, values, label)
    _refuse_impossible(name, found)
    return Choice(found)


def _refuse_impossible(name: str, values: Sequence[Setting]) -> None:
    """A value that the setting can have in no configuration; others fail where they are tried."""
    field = RunConfig.model_fields[name]
    kind: Any = field.annotation  # a type, known only at run time
    if field.metadata:
        kind = Annotated[kind, *field.metadata]
    check = TypeAdapter(kind).validate_python
    for value in values:
        try:
            check(value)
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ConfigError(f"--over {name}={value}: {why}") from None
