"""The Parquet files of `aiconfigurator-core`: GEMMs, attention, scaling, all-reduce of a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Any: cells of a Parquet file

import numpy as np

from costmodels.model_config import ModelConfig
from costmodels.model_memory import element_bytes
from simulator.errors import ConfigError

from .kernel_attention import Columns
from .kernels import Kernels

FUSES_SCALING = ("trtllm",)
"""Back ends whose activation and attention kernels write the FP8 input of the next GEMM."""

HEAD_DTYPE = "bfloat16"
"""Of the output projection, whatever the layers are in."""

Filters = list[tuple[str, str, Any]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables of a GPU and a back end lie."""

    systems: Path
    name: str
    backend: str

    def newest(self, what: str, file: str) -> Path:
        """The newest version of a table."""
        folder = self.systems / "data" / self.name / what / self.backend
        found = sorted(folder.glob(f"*/{file}.parquet"), key=lambda path: _order(path.parent.name))
        if not found:
            raise ConfigError(
                f"aiconfigurator-core holds no {file} of {self.backend} on {self.name}"
            )
        return found[-1]


def read_kernels(
    place: Place,
    model: ModelConfig,
    tensor_parallel: int,
    *,
    dtype: str,
    kv_dtype: str,
    is_static: bool,
    bandwidth: float,
) -> tuple[Kernels, str]:
    """(kernels for a model, the version of the back end whose GEMMs they are).

    dtype: of the GEMM table. is_static: FP8 inputs have their scales. bandwidth: bytes per us.
    """
    path = place.newest("gemm", "gemm_perf")
    fuses = is_static and place.backend in FUSES_SCALING
    kernels = Kernels(
        gemm=gemms(path, dtype),
        head_gemm=None if dtype == HEAD_DTYPE else gemms(path, HEAD_DTYPE),
        prefill=_attention(place, "context", model.head_dim, kv_dtype),
        decode=_attention(place, "generation", model.head_dim, kv_dtype),
        all_reduce=_all_reduce(place, tensor_parallel) if tensor_parallel > 1 else None,
        bandwidth=bandwidth,
        no_search=_scaling(place, "computescale_perf") if is_static else None,
        no_scaling=_scaling(place, "scale_matrix_perf") if fuses else None,
        kv_bytes=element_bytes(kv_dtype),
    )
    return kernels, path.parent.name


def gemms(path: Path, dtype: str) -> Columns:
    """m, n, k and latency (ms) of the GEMMs of one dtype."""
    return _read(path, ("m", "n", "k"), [("gemm_dtype", "=", dtype)])


def _attention(place: Place, what: str, head_dim: int, kv_dtype: str) -> Columns:
    filters: Filters = [
        *(("head_dim", "=", head_dim), ("kv_cache_dtype", "=", kv_dtype)),
        *(("attn_dtype", "=", "bfloat16"), ("window_size", "=", 0)),
    ]
    keys: tuple[str, ...] = ("batch_size", "step")
    if what == "context":
        keys, filters = ("isl",), [*filters, ("batch_size", "=", 1)]
    path = place.newest("attention", f"{what}_attention_perf")
    return _read(path, (*keys, "num_heads", "num_key_value_heads"), filters)


def _scaling(place: Place, file: str) -> Columns:
    """What it takes to find the scales of an FP8 GEMM's input, or to apply them."""
    return _read(place.newest("quantize", file), ("m", "k"), [("quant_dtype", "=", "fp8")])


def _all_reduce(place: Place, gpus: int) -> Columns:
    path = place.newest("comm", "custom_allreduce_perf")
    filters: Filters = [("num_gpus", "=", gpus)]
    if place.backend != "trtllm":
        filters.append(("backend", "=", f"{place.backend}_graph"))
    return _read(path, ("message_size",), filters)


def _read(path: Path, columns: tuple[str, ...], filters: Filters) -> Columns:
    """The rows that pass, slowest first: where kernels compete, the quickest is kept last."""
    from pyarrow.parquet import read_schema, read_table  # here: nobody else needs it

    known = read_schema(path).names  # older tables have no `window_size`: none slid
    filters = [rule for rule in filters if rule[0] in known]
    table = read_table(path, columns=[*columns, "latency"], filters=filters)
    if not table.num_rows:
        asked = ", ".join(f"{column} {value}" for column, _, value in filters)
        raise ConfigError(f"{path.name} of {path.parent}: has no rows with {asked}")
    read = {name: table.column(name).to_numpy() for name in table.column_names}
    order = np.argsort(-read["latency"], kind="stable")
    return {name: values[order] for name, values in read.items()}


def _order(released: str) -> tuple[int, ...]:
    """Versions by number: 1.3.0rc9 before 1.3.0rc10."""
    return tuple(int(number) for number in re.findall(r"\d+", released))
