"""Tables of AIConfigurator as CSV: FOLDER is the one of a backend, such as `h100_sxm/vllm-0.24.0`.

It holds `gemm_perf`, `context_attention_perf` and `generation_attention_perf`, for several GPUs
also `custom_allreduce_perf`; `system.yaml` of the GPU lies in the folder above. Times are
milliseconds, message sizes bf16 elements. `kernels.py` says what is made of them.

Source: https://github.com/ai-dynamo/aiconfigurator, `systems/data` (Apache-2.0).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from costmodels.model_config import ModelConfig
from costmodels.section import Section
from costmodels.table import CostTable
from costmodels.yaml_text import read_yaml
from simulator.errors import ConfigError

from .csv_rows import Row, find_file, read_rows
from .imported import Source, imported_table
from .kernel_attention import Columns
from .kernels import NOTE, Kernels, operators_of

HEADS = ("num_heads", "num_key_value_heads")


def import_aiconfigurator(folder: Path, model: ModelConfig, tensor_parallel: int) -> CostTable:
    """The table of one GPU and model; see `import_table`."""
    sizes = ("m", "n", "k")
    rows = read_rows(
        find_file(folder, "gemm_perf.csv"), (*sizes, "gemm_dtype", "latency", "version")
    )
    document, marks = read_yaml(folder.resolve().parent / "system.yaml")
    system = Section(
        document, file=str(folder.resolve().parent / "system.yaml"), marks=marks
    ).section("gpu")
    kernels = Kernels(
        gemm=_kept(rows, sizes, gemm_dtype="bfloat16"),
        prefill=_attention(folder, "context", ("isl",), head_dim=model.head_dim, batch_size=1),
        decode=_attention(folder, "generation", ("batch_size", "step"), head_dim=model.head_dim),
        all_reduce=_all_reduce(folder, tensor_parallel) if tensor_parallel > 1 else None,
        bandwidth=system.number("mem_bw", 1) / 1e6,
    )
    counted, attention = operators_of(kernels, model, tensor_parallel)
    source = Source(
        name="AIConfigurator",
        device=rows[0].values.get("device", "") or folder.resolve().parent.name,
        dtype="bfloat16",
        engine=f"kernels of {folder.resolve().name}, in CUDA graphs",
        software={"vllm": rows[0].values["version"]},
        url="https://github.com/ai-dynamo/aiconfigurator, systems/data",
        licence="Apache-2.0",
        note=NOTE,
    )
    return imported_table(source, model, tensor_parallel, counted=counted, attention=attention)


def _attention(folder: Path, what: str, keys: tuple[str, ...], **wanted: int) -> Columns:
    columns = ("batch_size", "isl", "step", *HEADS, "head_dim", "latency")
    rows = read_rows(find_file(folder, f"{what}_attention_perf.csv"), columns)
    return _kept(rows, (*keys, *HEADS), **wanted)


def _all_reduce(folder: Path, tensor_parallel: int) -> Columns:
    columns = ("num_gpus", "message_size", "latency", "backend")
    rows = read_rows(find_file(folder, "custom_allreduce_perf.csv"), columns)
    return _kept(rows, ("message_size",), num_gpus=tensor_parallel, backend="vllm_graph")


def _kept(rows: list[Row], whole: tuple[str, ...], **wanted: int | str) -> Columns:
    """The rows with these values, as columns of whole numbers and `latency`."""
    kept = [row for row in rows if row.is_(**wanted)]
    if not kept:
        asked = ", ".join(f"{column} {value}" for column, value in wanted.items())
        raise ConfigError(f"{rows[0].file}: has no rows with {asked}")
    columns: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.number]]] = {
        name: np.array([row.whole(name) for row in kept]) for name in whole
    }
    return {**columns, "latency": np.array([row.number("latency") for row in kept])}
