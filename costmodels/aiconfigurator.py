"""`aiconfigurator:SYSTEM`: kernels that NVIDIA measured, from the package `aiconfigurator-core`.

SYSTEM is a GPU (`h100_sxm`), or a GPU and a back end (`h100_sxm/trtllm`; `vllm` unless said). For
any dense Llama or Qwen `config.json`, on 1 to 8 GPUs; the newest version of a back end is taken.
What the package lacks is estimated: `importers/kernels.py` says how. Tokens are padded to the batch
sizes vLLM captures. The KV capacity is an estimate from the GPU's memory.

Source: https://github.com/ai-dynamo/aiconfigurator (Apache-2.0), read from its installed files.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from simulator.errors import ConfigError, nearest

from .importers.imported import Source, imported_table
from .importers.kernels import NOTE, operators_of, refuse_experts
from .importers.package_tables import Place, gemms, read_kernels
from .model_config import ModelConfig
from .model_memory import DEFAULT_ACTIVATION_RESERVE_BYTES, kv_blocks_from_memory
from .section import Section
from .table import CostTable, KVCapacity
from .yaml_text import read_yaml

PACKAGE = "aiconfigurator-core"
MODULE = "aiconfigurator_core"
BACKENDS = ("vllm", "sglang", "trtllm")
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
    refuse_experts(model)
    system = _system(place)
    gemm_dtype = _known(dtype, DTYPES, "dtype")
    cache_dtype = _known(kv_dtype, KV_DTYPES, "kv_dtype")
    kernels, engine = read_kernels(
        place,
        model,
        tensor_parallel,
        dtype=gemm_dtype,
        kv_dtype=cache_dtype,
        is_static=dtype == "fp8_static",
        bandwidth=system.number("mem_bw", 1) / 1e6,
    )
    counted, attention = operators_of(kernels, model, tensor_parallel)
    released = version(PACKAGE)
    source = Source(
        name="AIConfigurator",
        device=place.name,
        dtype=dtype,
        engine=f"kernels of {place.backend} {engine}, in CUDA graphs",
        software={PACKAGE: released, place.backend: engine},
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
        f"{place.backend} {engine} measured by NVIDIA ({PACKAGE} {released})",
        parameters={**table.parameters, "decode_batch_sizes": sizes, "mixed_batch_sizes": sizes},
        kv=_kv(system, model, tensor_parallel, dtype=gemm_dtype, kv_dtype=cache_dtype),
    )
    command = f"runway cost aiconfigurator:{name} --model {model.name} "
    command += f"--tensor-parallel-size {tensor_parallel}"
    return replace(table, provenance={**table.provenance, "command": command})


def fastest_gemm_flops(name: str, dtype: str) -> float:
    """FLOP/s of the quickest GEMM that was measured on one GPU of `SYSTEM/BACKEND`.

    Raises ConfigError without the package, and for what it has not measured.
    """
    columns = gemms(_place(name).newest("gemm", "gemm_perf"), _known(dtype, DTYPES, "dtype"))
    products = columns["m"].astype(float) * columns["n"] * columns["k"]
    return float((2e3 * products / columns["latency"]).max())


def _place(name: str) -> Place:
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
    return Place(_folder(), system, backend)


def _folder() -> Path:
    spec = find_spec(MODULE)
    assert spec is not None, MODULE  # asked before
    assert spec.submodule_search_locations is not None, MODULE
    return Path(spec.submodule_search_locations[0]) / "systems"


def _system(place: Place) -> Section:
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


def _kv(
    system: Section, model: ModelConfig, tensor_parallel: int, *, dtype: str, kv_dtype: str
) -> KVCapacity | None:
    """None if the weights leave no room: then the user must say how much there is."""
    memory = system.whole("mem_capacity")
    try:
        blocks = kv_blocks_from_memory(
            gpu_memory_bytes=memory,
            gpu_memory_utilization=GPU_MEMORY_UTILIZATION,
            weight_bytes=model.weight_bytes(dtype, tensor_parallel),
            activation_reserve_bytes=DEFAULT_ACTIVATION_RESERVE_BYTES,
            kv_bytes_per_token=model.kv_bytes_per_token(kv_dtype, tensor_parallel),
            block_size=BLOCK_SIZE,
        )
    except ConfigError:
        return None
    origin = f"an estimate: {GPU_MEMORY_UTILIZATION} of {memory / 2**30:.0f} GiB a GPU, less "
    return KVCapacity(blocks, BLOCK_SIZE, origin + "weights and 4 GiB")
