"""Is a measured table of the model and device that are asked for?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from simulator.errors import ConfigError

from .hardware import GPUS
from .table import NOT_STATED, CostTable

SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def refuse_another(
    table: CostTable,
    known: Iterable[str],
    *,
    model: str | Path | None = None,
    device: str | None = None,
    tp: int | None = None,
    dtype: str | None = None,
    kv_dtype: str | None = None,
) -> None:
    """Refuse a table that was measured on something else than what is given (None: not given).

    known: names of the tables there are. Raises ConfigError with what the table is of, and how to
    get the one that was asked for.
    """
    told = table.provenance if table.is_measured else {}
    for option, asked, measured, is_same in (
        ("model", model, told.get("model"), _is_same_model),
        ("device", device, told.get("device"), is_same_device),
        ("tensor parallel size", tp, told.get("tensor_parallel"), _is_same),
        ("dtype", dtype, told.get("dtype"), _is_same),
        ("KV cache dtype", kv_dtype, told.get("kv_cache_dtype"), _is_same),
    ):
        if asked is None or measured in (None, NOT_STATED) or is_same(str(asked), str(measured)):
            continue
        raise ConfigError(
            f"{option} {str(asked)!r}: cost table {table.name!r} was measured with {measured!r}: "
            f"take its own, another table (there are {', '.join(known)}), or measure yours with "
            "runway calibrate"
        )


def _is_same_model(asked: str, measured: str) -> bool:
    """A `config.json` does not say whose it is: only a name can be another.

    >>> _is_same_model("qwen3-32b", "Qwen/Qwen3-32B"), _is_same_model("qwen3-14b", "Qwen3-32B")
    (True, False)
    """
    name = Path(asked).name.removesuffix(".json")
    one, other = _letters(name), _letters(measured.rpartition("/")[2])
    return name == "config" or one in other or other in one


def is_same_device(asked: str, measured: str) -> bool:
    """A device of `hardware`, or a torch device, and what a driver calls it.

    >>> is_same_device("h100-sxm", "NVIDIA H100 80GB HBM3"), is_same_device("cpu", "NVIDIA B300")
    (True, False)
    """
    title = GPUS[asked].title if asked in GPUS else asked
    # The word with a number, but for the memory's, names the chip: H100, B300, 4090, L40S.
    chips = {
        word
        for word in re.split(r"[^a-z0-9]+", title.lower())
        if re.search(r"\d\d", word) and not word.endswith("gb")
    }
    words = {*re.split(r"[^a-z0-9]+", measured.lower())}
    return bool(chips & words) or _letters(asked) in _letters(measured)


def _is_same(asked: str, measured: str) -> bool:
    return SHORT.get(asked, asked) == SHORT.get(measured, measured)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
