"""What a page says of its prices: who measured them, and how far they were off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .page import Section, facts_of

Described = Mapping[str, Any]
"""`cost_model` of summary.json. Any: JSON values."""


def accuracy_section(described: Described) -> Section:
    """The accuracy stamp of a cost table."""
    facts = [
        ("cost model", f"{described['name']} ({described['kind']})"),
        ("origin", str(described["origin"])),
    ]
    if described.get("file"):
        facts.append(("table file", f"{described['file']['name']}"))
        facts.append(("its SHA-256", str(described["file"]["sha256"])))
    facts += [(f"held out: {name}", text) for name, text in _held_out(described)]
    beyond = described.get("extrapolation")
    if beyond:
        facts += [(f"beyond the table: {name}", text) for name, text in facts_of(beyond)]
    return Section("How accurate are the prices", (accuracy_sentence(described),), facts=facts)


def accuracy_sentence(described: Described) -> str:
    """The stamp in one sentence."""
    if described["stamp"]:
        return f"{str(described['stamp']).rstrip('.')}."
    held_out = described["held_out"]
    if not held_out:
        return "The table states no error on steps that its fit never saw."
    return (
        f"On steps that the fit never saw its prices are off by {100 * held_out['median']:.1f} % "
        f"(median) and {100 * held_out['p90']:.1f} % (p90)."
    )


def _held_out(described: Described) -> list[tuple[str, str]]:
    held_out = described["held_out"] or {}
    shares = ("mean", "median", "p90", "p99", "max")
    return [
        (name, f"{100 * value:.1f} %" if name in shares else f"{value}")
        for name, value in held_out.items()
        if not isinstance(value, Mapping)
    ]
