"""Points drawn at random or as a Latin hypercube from ranges and lists of values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from experiments.config import load_config
from simulator.errors import ConfigError, nearest

from .values import Label, Setting, by_setting, swept_values

METHODS = ("lhs", "random")
KEYS = ("count", "method", "seed", "over")
RANGE_KEYS = ("low", "high", "log")
_NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE]-?\d+)?)"
_RANGE = re.compile(rf"(log:)?{_NUMBER}\.\.{_NUMBER}")


@dataclass(frozen=True, slots=True)
class Range:
    """Any value from low to high, both included; log: equal chances for equal ratios."""

    low: float
    high: float
    log: bool
    whole: bool

    def at(self, share: float) -> float:
        """The value at a share of the range, 0 to below 1.

        >>> Range(10, 1000, log=True, whole=True).at(0.5)
        100
        >>> [Range(1, 3, log=False, whole=True).at(u) for u in (0.0, 0.5, 0.99)]
        [1, 2, 3]
        """
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            # A whole number owns the interval half a step around it: the ends are not rarer.
            half = 0.5 if self.whole else 0.0
            value = self.low - half + share * (self.high - self.low + 2 * half)
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return float(f"{value:.6g}")

    def written(self) -> dict[str, object]:
        """As in YAML."""
        return {"low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these values, equally likely."""

    values: tuple[Setting, ...]

    def at(self, share: float) -> Setting:
        """The value at a share of the list, 0 to below 1."""
        return self.values[int(share * len(self.values))]

    def written(self) -> list[Setting]:
        """As in YAML."""
        return list(self.values)


@dataclass(frozen=True, slots=True)
class Samples:
    """`count` draws over several settings; the same seed gives the same draws."""

    count: int
    method: str
    seed: int
    over: Mapping[str, Range | Choice]

    def draw(self) -> list[dict[str, Setting]]:
        """One mapping of setting to value per draw.

        lhs: each setting's range is cut into `count` equal parts and each part is drawn from
        once. Source: McKay, Beckman and Conover, Technometrics 21 (1979); SciPy's `qmc`.
        """
        import numpy as np

        rng = np.random.default_rng(self.seed)
        if self.method == "lhs":
            from scipy.stats.qmc import LatinHypercube

            shares = LatinHypercube(len(self.over), rng=rng).random(self.count)
        else:
            shares = rng.random((self.count, len(self.over)))
        return [
            {name: domain.at(float(u)) for (name, domain), u in zip(self.over.items(), row)}  # noqa: B905  # one share a setting, by construction
            for row in shares
        ]

    def written(self) -> dict[str, object]:
        """As in YAML."""
        over = {name: domain.written() for name, domain in self.over.items()}
        return {"count": self.count, "method": self.method, "seed": self.seed, "over": over}


def read_samples(given: object, label: Label) -> Samples:
    """The `samples:` section of a sweep file.

    Raises:
        ConfigError: another key, no count, no settings, or a range or list that is none.
    """
    shown = "`count: N`, `over: {setting: {low, high} or [values]}`, `method: lhs` and `seed: 0`"
    if not isinstance(given, Mapping):
        raise ConfigError(f"{label('samples')}: must be {shown}")
    for key in given:
        if key not in KEYS:
            raise ConfigError(f"{label('samples')}: has no key {key}{nearest(str(key), KEYS)}")
    over = given.get("over")
    if not isinstance(over, Mapping) or not over:
        raise ConfigError(f"{label('samples')}: over must name settings, as {shown}")
    method = str(given.get("method", METHODS[0]))
    if method not in METHODS:
        known = " or ".join(METHODS)
        raise ConfigError(
            f"{label('samples')}: method {method} must be {known}{nearest(method, METHODS)}"
        )
    domains = {name: _domain(name, held, label) for name, held in by_setting(over, label).items()}
    count = _whole(given.get("count"), 1, f"{label('samples')}: count")
    return Samples(
        count, method, _whole(given.get("seed", 0), 0, f"{label('samples')}: seed"), domains
    )


def is_sampled(text: object) -> bool:
    """Whether a flag's text is a range `LOW..HIGH`, `log:LOW..HIGH` or a choice `A|B|C`.

    >>> [is_sampled(text) for text in ("log:0.5..8", "vllm|chunked", "../trace.csv", "4,8")]
    [True, True, False, False]
    """
    if not isinstance(text, str) or "=" in text:
        return False
    return "|" in text or _RANGE.fullmatch(text) is not None


def read_domain(name: str, text: str, label: Label) -> Range | Choice:
    """A flag's range or choice.

    >>> read_domain("chunk_size", "log:128..4096", str)
    Range(low=128, high=4096, log=True, whole=True)
    >>> read_domain("chunk_size", "128|none", str)
    Choice(values=(128, None))

    Raises:
        ConfigError: it is neither.
    """
    if "|" in text:
        return Choice(swept_values(name, [part.strip() for part in text.split("|")], label))
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{label(name)} {text!r}: a range is LOW..HIGH or log:LOW..HIGH")
    return _range(name, found[2], found[3], label, log=bool(found[1]))


def _domain(name: str, held: object, label: Label) -> Range | Choice:
    if isinstance(held, str):
        return read_domain(name, held, label)
    if not isinstance(held, Mapping):
        return Choice(swept_values(name, held, label))
    for key in held:
        if key not in RANGE_KEYS:
            raise ConfigError(
                f"{label(name)}: a range has low, high and log, not {key}"
                f"{nearest(str(key), RANGE_KEYS)}"
            )
    if not isinstance(held.get("log", False), bool):
        raise ConfigError(f"{label(name)}: log must be true or false")
    return _range(name, held.get("low"), held.get("high"), label, log=bool(held.get("log", False)))


def _range(name: str, low: object, high: object, label: Label, *, log: bool) -> Range:
    ends = [_end(name, end, label) for end in (low, high)]
    if not ends[0] < ends[1]:
        raise ConfigError(f"{label(name)}: low {ends[0]:g} must be below high {ends[1]:g}")
    if log and ends[0] <= 0:
        raise ConfigError(f"{label(name)}: low {ends[0]:g} must be above 0 with log")
    return Range(ends[0], ends[1], log, all(isinstance(end, int) for end in ends))


def _end(name: str, end: object, label: Label) -> float:
    """One end in the setting's own form: an `int` if the setting takes whole numbers only."""
    try:
        value = getattr(load_config(None, {name: end}), name)
    except ConfigError as error:
        raise ConfigError(f"{label(name)}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isinf(value):
        raise ConfigError(f"{label(name)}: low and high must be numbers, {end!r} is none")
    return value


def _whole(value: Any, minimum: int, what: str) -> int:  # Any: a YAML value or a flag's text
    try:
        number = int(str(value))
    except ValueError:
        number = minimum - 1
    if number < minimum:
        raise ConfigError(f"{what} {value!r} must be a whole number of at least {minimum}")
    return number
