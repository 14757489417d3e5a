"""`runway list`: what can be named on the command line."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import click

from simulator.errors import ConfigError, nearest

from .terminal import print_table, say

Rows = list[dict[str, Any]]  # Any: JSON values


@click.command("list")
@click.argument("kind", metavar="schedulers|cost-models|formats|presets|datasets")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(kind: str, as_json: bool) -> None:
    """List what a flag of `runway simulate` accepts by name."""
    if kind not in KINDS:
        raise ConfigError(
            f"nothing called {kind!r} to list{nearest(kind, KINDS)}: {', '.join(KINDS)}"
        )
    rows = KINDS[kind]()
    if as_json:
        say(json.dumps({kind: rows}, indent=2, allow_nan=False))
        return
    cells = [(row["name"], _described(row)) for row in rows]
    print_table("", ("name", "description"), cells, text_columns=2)


def schedulers() -> Rows:
    """Policies with the first line of their description and the parameters a run gives them."""
    from experiments.config import RunConfig
    from experiments.policies import build_policy
    from simulator.schedulers import SCHEDULERS

    given = {name: build_policy(RunConfig(scheduler=name)).parameters for name in SCHEDULERS}

    return [
        {
            "name": name,
            "description": _first_line(kind),
            "parameters": {
                key: given[name].get(key, parameter.default)
                for key, parameter in inspect.signature(kind).parameters.items()
            },
        }
        for name, kind in SCHEDULERS.items()
    ]


def cost_models() -> Rows:
    """Bundled cost tables."""
    from costmodels import list_cost_models

    return [{"name": name, "description": text} for name, text in list_cost_models()]


def formats() -> Rows:
    """Trace formats."""
    from workloads import FORMATS

    return [{"name": name, "description": text} for name, text in FORMATS.items()]


def datasets() -> Rows:
    """Recordings of real engines that `runway validate` reads."""
    from experiments.validation import DATASETS

    return [{"name": name, "description": text} for name, text in DATASETS.items()]


def presets() -> Rows:
    """Generated workloads, with the limits that goodput is judged by."""
    from workloads import PRESETS

    return [
        {
            "name": name,
            "description": held.description,
            "input_tokens": held.prompt,
            "output_tokens": held.output,
            "rate": held.rate,
            "slo": {"ttft_ms": held.ttft_ms, "tpot_ms": held.tpot_ms},
        }
        for name, held in PRESETS.items()
    ]


KINDS: dict[str, Callable[[], Rows]] = {
    "schedulers": schedulers,
    "cost-models": cost_models,
    "formats": formats,
    "presets": presets,
    "datasets": datasets,
}


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _described(row: dict[str, Any]) -> str:  # Any: JSON values
    """The description, and a line for each further property."""
    further = [f"{key}: {_text(held)}" for key, held in row.items()][2:]
    return "\n".join([str(row["description"]), *further])


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={held}" for key, held in value.items())
    return "-" if value is None else str(value)
