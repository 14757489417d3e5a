"""The flags of `runway simulate` and `runway sweep`, made from the fields of `RunConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click
from pydantic.fields import FieldInfo

from experiments.config import RunConfig, flag_of
from experiments.explain import choices
from experiments.option import option_of
from simulator.errors import ConfigError
from simulator.units import seconds_to_ns

OUTPUT = "Output"

out_option = click.option(
    "--out", "out", required=True, type=click.Path(path_type=Path), help="Folder for the results."
)


class FieldOption(click.Option):
    """The flag of one field, under a heading."""

    def __init__(self, names: list[str], section: str, **more: Any) -> None:  # Any: click's own
        super().__init__(names, **more)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists its flags under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                section = getattr(parameter, "section", OUTPUT)
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


class SweptCommand(SectionedCommand):
    """A command whose switches may take several values: `--async-scheduling true,false`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        swept = swept_fields().items()
        switches = {flag_of(name) for name, field in swept if is_switch(field)}
        return super().parse_args(ctx, valued(args, switches))


def valued(args: list[str], switches: set[str]) -> list[str]:
    """Arguments with every switch spelt as a flag with a value.

    >>> valued(["--fast", "true,false", "--no-loud", "file"], {"--fast", "--loud"})
    ['--fast=true,false', '--loud=false', 'file']
    """
    spelt: list[str] = []
    for arg in args:
        truths = all(word in TRUTHS for word in arg.lower().split(","))
        if truths and spelt and spelt[-1] in switches:
            spelt[-1] += f"={arg}"
        elif arg.startswith("--no-") and f"--{arg[5:]}" in switches:
            spelt.append(f"--{arg[5:]}=false")
        else:
            spelt.append(arg)
    return [f"{arg}=true" if arg in switches else arg for arg in spelt]


TRUTHS = ("true", "false", "yes", "no", "on", "off")


def swept_fields() -> dict[str, FieldInfo]:
    """The fields that a sweep may vary: all but those about output."""
    fields = RunConfig.model_fields.items()
    return {name: field for name, field in fields if option_of(field).section != OUTPUT}


def field_options(*, lists: bool = False) -> list[click.Parameter]:
    """One flag per field of `RunConfig`. Values stay text: `RunConfig` alone reads them.

    lists: for sweeps: a flag takes several values, separated by commas; output is the sweep's.
    """
    fields = swept_fields() if lists else RunConfig.model_fields
    return [_option(name, field, lists) for name, field in fields.items()]


def given(parameters: Mapping[str, object]) -> dict[str, object]:
    """The fields set on the command line, raw, by name."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in parameters.items()
        if value is not None and value != ()
    }


def time_span(from_s: float | None, to_s: float | None) -> tuple[int, int] | None:
    """A window of a run in ns, open where no end is given; None for the whole run.

    >>> time_span(1.5, 2.0), time_span(None, None)
    ((1500000000, 2000000000), None)

    Raises:
        ConfigError: it ends before it starts.
    """
    if from_s is None and to_s is None:
        return None
    start = -(2**62) if from_s is None else seconds_to_ns(from_s)
    end = 2**62 if to_s is None else seconds_to_ns(to_s)
    if start >= end:
        raise ConfigError(f"--to-s {to_s} must be after --from-s {from_s}")
    return start, end


def is_switch(field: FieldInfo) -> bool:
    """True for a field that is only on or off."""
    return field.annotation is bool or bool in get_args(field.annotation)


def is_pairs(field: FieldInfo) -> bool:
    """True for a field of KEY=VALUE pairs; its flag may be repeated."""
    return "=" in (option_of(field).metavar or "")


def _option(name: str, field: FieldInfo, lists: bool) -> FieldOption:
    how = option_of(field)
    flag = flag_of(name)
    others = [f"--{alias.replace('_', '-')}" for alias in how.aliases if alias != flag[2:]]
    help_text = f"{field.description} {_default(field)}".strip()
    if is_switch(field) and not lists:
        spelt = f"{flag}/--no-{flag[2:]}"
        return FieldOption([name, spelt, *others], how.section, default=None, help=help_text)
    metavar = how.metavar or "|".join(("true", "false") if is_switch(field) else choices(field))
    if lists and not is_pairs(field):
        metavar += "[,...]"
    return FieldOption(
        [name, flag, *others],
        how.section,
        type=str,
        metavar=metavar,
        multiple=is_pairs(field),
        help=help_text,
    )


def _default(field: FieldInfo) -> str:
    """`[default: ...]`, or nothing for a field that is simply unset."""
    shown = option_of(field).shown
    if shown is None and field.default is not None:
        shown = _spelt(field.default)
    return f"[default: {shown}]" if shown is not None else ""


def _spelt(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)
