"""The parameters of an `OperatorsCostModel`, checked; `operators_table` explains them."""

from __future__ import annotations

from dataclasses import replace

from simulator.errors import ConfigError

from .operators_table import OperatorGrids
from .table import CostTable, Value, hand_written

WORDS = {"host_combine": ("max", "sum"), "decode_attention": ("paged", "padded")}
MAX_LAYERS = 1000
MAX_FACTOR = 10


def check_parameters(
    layers: int, prefill_step_factor: float, split_kv_below: int, **words: str
) -> None:
    """ConfigError for what cannot be."""
    for name, word in words.items():
        if word not in WORDS[name]:
            raise ConfigError(f"{name} is {word!r}: must be {' or '.join(WORDS[name])}")
    if not 1 <= layers <= MAX_LAYERS:
        raise ConfigError(f"layers is {layers}: must be 1 to {MAX_LAYERS}")
    if split_kv_below < 0:
        raise ConfigError(f"split_kv_below is {split_kv_below}: must be 0 (one kernel) or more")
    if not 0 < prefill_step_factor <= MAX_FACTOR:
        raise ConfigError(
            f"prefill_step_factor is {prefill_step_factor}: must be above 0, at most {MAX_FACTOR}"
        )


def table_of(grids: OperatorGrids, parameters: dict[str, Value]) -> CostTable:
    """A table around grids that have none."""
    given = {key: value for key, value in parameters.items() if value != []}
    table = hand_written("operators", "step prices from operators", given)
    return replace(table, operators=grids)
