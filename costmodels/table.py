"""The cost table: a small YAML file with the numbers of a cost model and where they come from.

    runway_cost_table: 1
    kind: linear
    name: my-gpu
    description: one line for `runway list cost-models`
    parameters: {step_ms: 10.0, prefill_ms_per_token: 1.0}     # units are part of every name
    provenance: {origin: hand-written for a lecture}

`origin` starts with "hand-written" or with "measured". A measured table must say on which device,
dtype, model, engine and software it was measured, when, by which command, from which data under
which licence and from how many samples, and how far it is off on samples its fit never saw
(`held_out`); it is refused otherwise. Kind `operators` also holds grids: see `operators_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simulator.output import whole_file

from .operators_rows import check_measured, read_grids
from .operators_table import Operator as Operator  # part of what this module offers
from .operators_table import OperatorGrids, document_text
from .section import Section
from .table_schema import (
    FORMAT_KEY,
    FORMAT_VERSION,
    SECTIONS,
    check_held_out,
    check_kind,
    check_parameters,
    check_provenance,
)
from .yaml_text import Marks, parse_yaml, read_yaml, yaml_of
from .yaml_text import Value as Value  # part of what this module offers

NOT_STATED = "not stated"
"""What a table says of its provenance where nobody did."""


class KVCapacity(NamedTuple):
    """KV blocks of block_size tokens that a table was measured with; origin: how that is known."""

    blocks: int
    block_size: int
    origin: str


@dataclass(frozen=True, slots=True)
class CostTable:
    """A cost table, validated.

    parameters: what the cost model's constructor takes; milliseconds where the name says so.
    provenance: at least `origin`; for measured tables every key of `MEASURED_KEYS`.
    held_out: `split`, `n`, and the `median` and `p90` of |predicted - measured| / measured.
    extrapolation: errors on steps outside the fit's data, where tested.
    fitted_range: per quantity, [lowest, highest] of the fitted steps.
    kv, max_model_len, max_num_batched_tokens: the engine it was measured with, where known.
    operators: the measured grids of kind `operators`; None for any other.
    """

    kind: str
    name: str
    description: str
    parameters: Mapping[str, Value]
    provenance: Mapping[str, Value]
    held_out: Mapping[str, Value] | None = None
    extrapolation: Mapping[str, Value] | None = None
    fitted_range: Mapping[str, Value] | None = None
    kv: KVCapacity | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    operators: OperatorGrids | None = None

    @property
    def is_measured(self) -> bool:
        """True if its numbers come from a real device."""
        return str(self.provenance["origin"]).startswith("measured")

    @property
    def stamp(self) -> str | None:
        """What every result priced with it must say; None for measured prices."""
        if self.is_measured:
            return None
        if self.kind == "roofline":
            return f"uncalibrated: {self.description}"
        return f"uncalibrated: prices are {self.provenance['origin']}"

    @property
    def summary(self) -> str:
        """One line: what it is, and how far off it was on steps its fit never saw."""
        if self.held_out is None:
            return self.description
        median, p90 = (f"{100 * float(str(self.held_out[k])):.1f} %" for k in ("median", "p90"))
        line = f"{self.description}; held-out error median {median}, p90 {p90}"
        beyond = (self.extrapolation or {}).get("sum_of_all_steps")
        if isinstance(beyond, float):
            line += f"; summed time of a load beyond its range {100 * beyond:+.1f} %"
        return line

    def to_dict(self) -> dict[str, Value]:
        """What a table says of itself, without the grids of kind `operators`."""
        document: dict[str, Value] = {FORMAT_KEY: FORMAT_VERSION}
        for key in SECTIONS[1:-1]:
            value = getattr(self, key)
            if isinstance(value, KVCapacity):
                value = dict(value._asdict())
            if value is not None:
                document[key] = dict(value) if isinstance(value, Mapping) else value
        return document


def hand_written(
    kind: str,
    description: str,
    parameters: Mapping[str, Value],
    *,
    origin: str = "hand-written",
    kv: KVCapacity | None = None,
    max_model_len: int | None = None,
) -> CostTable:
    """A table for prices that nobody measured.

    >>> hand_written("constant", "a test", {"prefill_ms": 80.0, "decode_ms": 8.0}).stamp
    'uncalibrated: prices are hand-written'
    """
    return CostTable(
        kind=kind,
        name=kind,
        description=description,
        parameters=parameters,
        provenance={"origin": origin},
        kv=kv,
        max_model_len=max_model_len,
    )


def load_table(path: str | Path) -> CostTable:
    """Read and check a cost table.

    Raises TableFormatError, naming file, line, column and key, for anything wrong or missing.
    """
    path = Path(path)
    document, marks = read_yaml(path)
    return check_table(document, marks, str(path))


def save_table(table: CostTable, path: str | Path) -> None:
    """Write a cost table that `load_table` accepts, JSON if the file is called so, else YAML.

    Raises:
        TableFormatError: `load_table` would not accept it.
        ConfigError: the place cannot be written to.
    """
    path = Path(path)
    if table.kind == "operators" or path.suffix == ".json":
        text = _json_text(table, str(path))
    else:
        text = table_text(table)
        document, marks = parse_yaml(text, str(path))
        check_table(document, marks, str(path))
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def table_text(table: CostTable) -> str:
    """The YAML of a table: the same table, the same bytes."""
    return yaml_of(table.to_dict())


def _json_text(table: CostTable, file: str) -> str:
    """The JSON of a table: of one with grids always, and without PyYAML, which may be absent."""
    document = table.to_dict()
    if table.operators is not None:
        document["operators"] = table.operators.to_dict()
    check_table(document, {}, file)
    return document_text(document, file)


def check_table(document: Value, marks: Marks, file: str) -> CostTable:
    """A document as a `CostTable`, or TableFormatError."""
    top = Section(document, file=file, marks=marks)
    kind = check_kind(top)
    is_measured = check_provenance(top.section("provenance"))
    if is_measured or "held_out" in top:
        check_held_out(top)
    operators = read_grids(top.section("operators")) if kind == "operators" else None
    if operators is not None and is_measured:
        check_measured(top.section("operators"), operators)
    return CostTable(
        kind=kind,
        name=top.text("name"),
        description=top.text("description"),
        parameters=check_parameters(top.section("parameters"), kind),
        provenance=top.section("provenance").values,
        held_out=_mapping(top, "held_out"),
        extrapolation=_mapping(top, "extrapolation"),
        fitted_range=_mapping(top, "fitted_range"),
        kv=_kv(top.section("kv")) if "kv" in top else None,
        max_model_len=_limit(top, "max_model_len"),
        max_num_batched_tokens=_limit(top, "max_num_batched_tokens"),
        operators=operators,
    )


def _kv(section: Section) -> KVCapacity:
    section.allow(KVCapacity._fields, KVCapacity._fields)
    return KVCapacity(section.whole("blocks"), section.whole("block_size"), section.text("origin"))


def _mapping(top: Section, key: str) -> Mapping[str, Value] | None:
    return top.section(key).values if key in top else None


def _limit(top: Section, key: str) -> int | None:
    return top.whole(key) if key in top else None
