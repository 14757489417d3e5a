"""`aiconfigurator:SYSTEM`: kernels that NVIDIA measured, from the package `aiconfigurator-core`.

SYSTEM is a GPU (`h100_sxm`), or a GPU and a back end (`h100_sxm/trtllm`; `vllm` unless said). For
any dense Llama or Qwen `config.json`, on 1 to 8 GPUs; the newest version of a back end is taken.
What the package lacks is estimated: `importers/kernels.py` says how. Tokens are padded to the batch
sizes vLLM captures. The KV capacity is an estimate from the GPU's memory.

Source: https://github.com/ai-dynamo/aiconfigurator (Apache-2.0), read from its installed files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any  # Any: cells of a Parquet file

import numpy as np

from simulator.errors import ConfigError, nearest

from .importers.imported import Source, imported_table
from .importers.kernel_attention import Columns
from .importers.kernels import NOTE, Kernels, operators_of
from .model_config import ModelConfig
from .model_memory import DEFAULT_ACTIVATION_RESERVE_BYTES, element_bytes, kv_blocks_from_memory
from .section import Section
from .table import CostTable, KVCapacity
from .yaml_text import read_yaml

PACKAGE = "aiconfigurator-core"
MODULE = "aiconfigurator_core"
BACKENDS = ("vllm", "sglang", "trtllm")
FUSES_SCALING = ("trtllm",)
"""Back ends whose activation and attention kernels write the FP8 input of the next GEMM."""
DTYPES = {
    **{"bfloat16": "bfloat16", "bf16": "bfloat16"},
    **{"fp8": "fp8", "fp8_static": "fp8", "fp8_block": "fp8_block"},
}
"""Dtype of the weights -> that of the GEMM table."""
KV_DTYPES = {"bfloat16": "bfloat16", "bf16": "bfloat16", "fp8": "fp8"}
GPU_MEMORY_UTILIZATION = 0.9
BLOCK_SIZE = 16
GRAPH_SIZES = (1, 2, 4, *range(8, 256, 8), *range(256, 513, 16))
"""Batch sizes vLLM captures by default for 256 sequences and more."""

Filters = list[tuple[str, str, Any]]


@dataclass(frozen=True, slots=True)
class _Place:
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
                f"{PACKAGE} {version(PACKAGE)} holds no {file} of {self.backend} on {self.name}"
            )
        return found[-1]


def is_installed() -> bool:
    """Is the package there? It is not imported."""
    return find_spec(MODULE) is not None


def systems() -> tuple[str, ...]:
    """GPUs whose kernels the installed package has; empty without it."""
    if not is_installed():
        return ()
    data = _folder() / "data"
    return tuple(sorted(path.parent.name for path in data.glob("*/attention")))


def measured_table(
    name: str,
    model: ModelConfig,
    *,
    tensor_parallel: int = 1,
    dtype: str = "bfloat16",
    kv_dtype: str = "bfloat16",
) -> CostTable:
    """The table of `SYSTEM` or `SYSTEM/BACKEND`.

    dtype of the weights: bfloat16, fp8 (inputs are scaled as they come), fp8_static (scales from
    the checkpoint, as in NVIDIA's), fp8_block. kv_dtype: bfloat16 or fp8.

    Raises ConfigError without the package, and for what it has not measured.
    """
    place = _place(name)
    system = _system(place)
    gemm_dtype, cache_dtype = (
        _known(dtype, DTYPES, "dtype"),
        _known(kv_dtype, KV_DTYPES, "kv_dtype"),
    )
    path = place.newest("gemm", "gemm_perf")
    gemm = _read(path, ("m", "n", "k"), [("gemm_dtype", "=", gemm_dtype)])
    plain, static = gemm_dtype == "bfloat16", dtype == "fp8_static"
    kernels = Kernels(
        gemm=gemm,
        head_gemm=None
        if plain
        else _read(path, ("m", "n", "k"), [("gemm_dtype", "=", "bfloat16")]),
        prefill=_attention(place, "context", model.head_dim, cache_dtype),
        decode=_attention(place, "generation", model.head_dim, cache_dtype),
        all_reduce=_all_reduce(place, tensor_parallel) if tensor_parallel > 1 else None,
        bandwidth=system.number("mem_bw", 1) / 1e6,
        no_search=_scaling(place, "computescale_perf") if static else None,
        no_scaling=_scaling(place, "scale_matrix_perf")
        if static and place.backend in FUSES_SCALING
        else None,
        kv_bytes=element_bytes(cache_dtype),
    )
    counted, attention = operators_of(kernels, model, tensor_parallel)
    released = version(PACKAGE)
    source = Source(
        name="AIConfigurator",
        device=place.name,
        dtype=dtype,
        engine=f"kernels of {place.backend} {path.parent.name}, in CUDA graphs",
        software={PACKAGE: released, place.backend: path.parent.name},
        url="https://github.com/ai-dynamo/aiconfigurator, systems/data",
        licence="Apache-2.0",
        note=NOTE,
    )
    table = imported_table(source, model, tensor_parallel, counted=counted, attention=attention)
    sizes = list(GRAPH_SIZES)
    table = replace(
        table,
        name=f"aiconfigurator-{name.replace('/', '-')}-{model.name}-tp{tensor_parallel}",
        description=f"{model.name}, {dtype}, on {tensor_parallel} x {place.name}: kernels of "
        f"{place.backend} {path.parent.name} measured by NVIDIA ({PACKAGE} {released})",
        parameters={**table.parameters, "decode_batch_sizes": sizes, "mixed_batch_sizes": sizes},
        kv=_kv(system, model, tensor_parallel, dtype=gemm_dtype, kv_dtype=cache_dtype),
    )
    command = f"runway cost aiconfigurator:{name} --model {model.name} "
    command += f"--tensor-parallel-size {tensor_parallel}"
    return replace(table, provenance={**table.provenance, "command": command})


def _place(name: str) -> _Place:
    system, _, backend = name.partition("/")
    backend = backend or BACKENDS[0]
    if not is_installed():
        raise ConfigError(
            f"cost model 'aiconfigurator:{name}' needs the package {PACKAGE}, which is not "
            "installed: pip install 'llm-runway[aic]'"
        )
    known = systems()
    if system not in known:
        raise ConfigError(
            f"{PACKAGE} {version(PACKAGE)} has no kernels of {system!r}{nearest(system, known)} "
            f"(known: {', '.join(known)}); {system} is no folder either"
        )
    if backend not in BACKENDS:
        raise ConfigError(
            f"back end {backend!r} is unknown{nearest(backend, BACKENDS)} "
            f"(known: {', '.join(BACKENDS)})"
        )
    return _Place(_folder(), system, backend)


def _folder() -> Path:
    spec = find_spec(MODULE)
    assert spec is not None, MODULE  # asked before
    assert spec.submodule_search_locations is not None, MODULE
    return Path(spec.submodule_search_locations[0]) / "systems"


def _system(place: _Place) -> Section:
    path = place.systems / f"{place.name}.yaml"
    document, marks = read_yaml(path)
    return Section(document, file=str(path), marks=marks).section("gpu")


def _known(dtype: str, known: dict[str, str], option: str) -> str:
    if dtype not in known:
        raise ConfigError(
            f"{option} {dtype!r} is not among the measured ones{nearest(dtype, known)} "
            f"({', '.join(known)})"
        )
    return known[dtype]


def _attention(place: _Place, what: str, head_dim: int, kv_dtype: str) -> Columns:
    filters: Filters = [
        *(("head_dim", "=", head_dim), ("kv_cache_dtype", "=", kv_dtype)),
        *(("attn_dtype", "=", "bfloat16"), ("window_size", "=", 0)),
    ]
    keys: tuple[str, ...] = ("batch_size", "step")
    if what == "context":
        keys, filters = ("isl",), [*filters, ("batch_size", "=", 1)]
    path = place.newest("attention", f"{what}_attention_perf")
    return _read(path, (*keys, "num_heads", "num_key_value_heads"), filters)


def _scaling(place: _Place, file: str) -> Columns:
    """What it takes to find the scales of an FP8 GEMM's input, or to apply them."""
    return _read(place.newest("quantize", file), ("m", "k"), [("quant_dtype", "=", "fp8")])


def _all_reduce(place: _Place, gpus: int) -> Columns:
    path = place.newest("comm", "custom_allreduce_perf")
    filters: Filters = [("num_gpus", "=", gpus)]
    if place.backend != "trtllm":
        filters.append(("backend", "=", f"{place.backend}_graph"))
    return _read(path, ("message_size",), filters)


def _read(path: Path, columns: tuple[str, ...], filters: Filters) -> Columns:
    """The rows that pass, slowest first: where kernels compete, the quickest is kept last."""
    from pyarrow.parquet import read_table  # here: nobody else needs it

    table = read_table(path, columns=[*columns, "latency"], filters=filters)
    if not table.num_rows:
        asked = ", ".join(f"{column} {value}" for column, _, value in filters)
        raise ConfigError(f"{path.name} of {path.parent}: has no rows with {asked}")
    read = {name: table.column(name).to_numpy() for name in table.column_names}
    order = np.argsort(-read["latency"], kind="stable")
    return {name: values[order] for name, values in read.items()}


def _kv(
    system: Section, model: ModelConfig, tensor_parallel: int, *, dtype: str, kv_dtype: str
) -> KVCapacity | None:
    """None if the weights leave no room: then the user must say how much there is."""
    memory = system.whole("mem_capacity")
    try:
        blocks = kv_blocks_from_memory(
            gpu_memory_bytes=memory,
            gpu_memory_utilization=GPU_MEMORY_UTILIZATION,
            weight_bytes=model.weight_bytes(dtype.partition("_")[0], tensor_parallel),
            activation_reserve_bytes=DEFAULT_ACTIVATION_RESERVE_BYTES,
            kv_bytes_per_token=model.kv_bytes_per_token(kv_dtype, tensor_parallel),
            block_size=BLOCK_SIZE,
        )
    except ConfigError:
        return None
    origin = f"an estimate: {GPU_MEMORY_UTILIZATION} of {memory / 2**30:.0f} GiB a GPU, less "
    return KVCapacity(blocks, BLOCK_SIZE, origin + "weights and 4 GiB")


def _order(released: str) -> tuple[int, ...]:
    """Versions by number: 1.3.0rc9 before 1.3.0rc10."""
    return tuple(int(number) for number in re.findall(r"\d+", released))
