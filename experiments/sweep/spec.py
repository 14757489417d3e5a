"""What a sweep is asked to do: a base run, and what replaces its settings at each point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from experiments.config import RunConfig, flag_of, load_config
from simulator.errors import ConfigError

from .file import Asked, read_sweep_file
from .samples import Choice, Range, Samples, is_sampled, read_domain
from .seeds import read_seeds
from .values import Setting, by_setting, one_form, swept_values
from .variants import COLUMN, Variant, read_variant_flags

Values = Mapping[str, Any]
"""Setting -> value. Any because settings are numbers, texts, mappings or None."""

DEFAULT_GRID: Mapping[str, tuple[int | None, ...]] = {
    "chunk_size": (256, 512, 1024, 2048, None),
    "max_num_batched_tokens": (512, 2048, 8192),
}
"""What a sweep varies when nobody says."""


@dataclass(frozen=True, slots=True)
class Point:
    """One row of a sweep.

    values: its columns, in order: the variant's name, then every varied setting.
    settings: what it sets on top of the base.
    """

    index: int
    values: Values
    settings: Values


@dataclass(frozen=True, slots=True)
class SweepSpec:
    """A base run and what varies: a point per combination of variant, draw and grid cell.

    The last setting of the grid changes fastest. seeds: every point is run with each of them, the
    same list at every point; empty for one run a point with the base's own seed.
    """

    base: Values
    grid: Mapping[str, tuple[Setting, ...]]
    variants: tuple[Variant, ...] = ()
    samples: Samples | None = None
    seeds: tuple[int, ...] = ()

    def __len__(self) -> int:
        cells = prod(len(values) for values in self.grid.values())
        return cells * max(len(self.variants), 1) * (self.samples.count if self.samples else 1)

    @property
    def varied(self) -> tuple[str, ...]:
        """Columns of the varied settings, in order; `variant` first if there are variants."""
        own = [name for variant in self.variants for name in variant.settings]
        drawn = self.samples.over if self.samples else ()
        named = (COLUMN,) if self.variants else ()
        return (*named, *dict.fromkeys((*own, *drawn, *self.grid)))

    @property
    def runs(self) -> tuple[int | None, ...]:
        """The seeds of a point's runs; None is the seed that the base says."""
        return self.seeds or (None,)

    def points(self) -> Iterator[Point]:
        """Every combination, in the order of the rows of the results.

        >>> spec = SweepSpec({}, {"rate": (4.0, 8.0), "chunk_size": (256, None)})
        >>> [tuple(point.values.values()) for point in spec.points()]
        [(4.0, 256), (4.0, None), (8.0, 256), (8.0, None)]
        """
        variants: Sequence[Variant | None] = self.variants or (None,)
        draws = self.samples.draw() if self.samples else [{}]
        cells = product(*self.grid.values())
        unset = {name: self._unset(name) for name in self.varied if name != COLUMN}
        for index, (variant, draw, cell) in enumerate(product(variants, draws, cells)):
            own = dict(variant.settings) if variant else {}
            settings = {**own, **draw, **dict(zip(self.grid, cell, strict=True))}
            named = {COLUMN: variant.name} if variant else {}
            yield Point(index, {**named, **unset, **settings}, settings)

    def config(self, point: Point, seed: int | None = None) -> RunConfig:
        """The run of a point, with this seed if one is given.

        Raises:
            ConfigError: its values are not acceptable, alone or together.
        """
        seeded = {} if seed is None else {"seed": seed}
        return load_config(None, {**self.base, **point.settings, **seeded})

    def _unset(self, name: str) -> Setting:
        """The value that a varied setting has in variants that do not name it."""
        return one_form(name, self.base.get(name, RunConfig.model_fields[name].default))


def load_spec(
    path: Path | None = None,
    base: Values | None = None,
    grid: Mapping[str, Sequence[Setting]] | None = None,
    extra: Asked | None = None,
) -> SweepSpec:
    """The sweep of a YAML file, with flags on top; both may be left out.

    A flag replaces what the file says of that setting. extra: variants, samples and seeds by
    flags; each replaces the file's. If nothing varies the sweep is `DEFAULT_GRID`, less the
    settings that the base fixes.

    Raises:
        ConfigError: an unknown setting (with the nearest name), a bad base value, an empty list
            or a value given twice. A bad value in the grid is no error: its points are `invalid`.
    """
    file = read_sweep_file(path) if path else Asked()
    more = extra or Asked()
    flag_base = by_setting(base or {}, flag_of)
    flag_grid = {
        name: swept_values(name, values, flag_of)
        for name, values in by_setting(grid or {}, flag_of).items()
    }
    samples = _without(more.samples or file.samples, {**flag_base, **flag_grid}, more.samples)
    variants = more.variants or file.variants
    taken = {*flag_base, *(samples.over if more.samples and samples else ())}
    varied = {k: v for k, v in file.grid.items() if k not in taken} | flag_grid
    _refuse_overlap(varied, variants, samples)
    fixed = {**file.base, **flag_base}
    seeds = read_seeds(file.seeds if more.seeds is None else more.seeds, fixed, flag_of)
    sampled = samples.over if samples else {}
    fixed = {k: v for k, v in fixed.items() if k not in varied and k not in sampled}
    if not (varied or variants or samples):
        varied = {name: values for name, values in DEFAULT_GRID.items() if name not in fixed}
    spec = SweepSpec(fixed, varied, variants, samples, seeds)
    if seeds and "seed" in spec.varied:
        raise ConfigError("seeds repeat every point, and seed is varied too: drop one of them")
    load_config(None, fixed)
    return spec


def split_flags(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Flags with one value (the base) and flags with several, comma between them (the grid).

    Only texts are split, and never one with `=` in it: that is a KEY=VALUE list of its own.
    Any: what the command line passes on: texts, truth values, lists of KEY=VALUE.

    >>> split_flags({"rate": "4,8", "trace": "a.csv", "slo": "ttft=1s,tpot=50ms"})
    ({'trace': 'a.csv', 'slo': 'ttft=1s,tpot=50ms'}, {'rate': ['4', '8']})
    """
    grid = {
        name: [value.strip() for value in text.split(",")]
        for name, text in flags.items()
        if isinstance(text, str) and "," in text and "=" not in text
    }
    return {name: value for name, value in flags.items() if name not in grid}, grid


def asked_by_flags(
    flags: Mapping[str, Any],  # Any: as for `split_flags`
    *,
    variants: Sequence[str] = (),
    samples: str | None = None,
    sample_seed: int = 0,
    seeds: str | None = None,
) -> tuple[dict[str, Any], Asked]:
    """The flags that are no ranges, and what ranges, variants, samples and seeds ask for.

    samples: `N` or `random:N`. A flag with a range or a choice is drawn from, and needs samples.

    Raises:
        ConfigError: a range without samples, samples without a range, or a form that is wrong.
    """
    drawn = {name: text for name, text in flags.items() if is_sampled(text)}
    if bool(drawn) != (samples is not None):
        forms = "a range (LOW..HIGH or log:LOW..HIGH) or a choice ('A|B|C')"
        if samples is not None:
            raise ConfigError(f"--samples needs a setting to draw from: give it {forms}")
        name, text = next(iter(drawn.items()))
        raise ConfigError(f"{flag_of(name)} {text!r} is {forms}: it needs --samples N")
    over = {name: read_domain(name, text, flag_of) for name, text in drawn.items()}
    asked = Asked(
        variants=read_variant_flags(variants, flag_of),
        samples=_sampled(samples, sample_seed, over) if samples else None,
        seeds=seeds,
    )
    return {name: value for name, value in flags.items() if name not in drawn}, asked


def _sampled(samples: str, seed: int, over: Mapping[str, Range | Choice]) -> Samples:
    method, _, count = samples.rpartition(":")
    if not count.isdecimal() or int(count) < 1 or method not in ("", "lhs", "random"):
        raise ConfigError(f"--samples {samples!r}: must be N, lhs:N or random:N, N at least 1")
    return Samples(int(count), method or "lhs", seed, over)


def _without(samples: Samples | None, flags: Values, by_flag: Samples | None) -> Samples | None:
    """The file's samples less the settings that a flag fixes or lists."""
    if samples is None or by_flag is not None:
        return samples
    over = {name: held for name, held in samples.over.items() if name not in flags}
    return replace(samples, over=over) if over else None


def _refuse_overlap(grid: Values, variants: Sequence[Variant], samples: Samples | None) -> None:
    own = {name for variant in variants for name in variant.settings}
    drawn = {*(samples.over if samples else ())}
    for one, other, words in (
        ({*grid}, own, "grid and variants"),
        ({*grid}, drawn, "grid and samples"),
        (own, drawn, "variants and samples"),
    ):
        for name in sorted(one & other):
            raise ConfigError(f"{name} is in {words}: leave it in one of them")
