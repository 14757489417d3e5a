"""The rows of `silicon_sample.csv` that can be simulated, and by which rule the others cannot."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from costmodels.aiconfigurator import BACKENDS, systems
from costmodels.model_config import bundled_models, find_model

from .reuse import REUSED, reuses_prompts

RECORDING = ("source", "backend", "backend_version", "model_path", "system", "gemm_quant_mode")
"""Columns that tell one recording from another."""
NO_CONCURRENCY = "no concurrency of the client, only a batch size"
LENGTH_RATIO = {"InferenceX": 0.8, "NVIDIA": 1.0}
"""Lengths are uniform from this share of the nominal ones up to them.

InferenceX states `--random-range-ratio 0.8`; nothing is known of the others.
"""


class Server(NamedTuple):
    """A row: what was served, on what, under which load; times in ms.

    mixes_prompts: into steps with decodes; else prompts are computed before decodes go on.
    recording: rows with the same one are of the same servers and clients. doubt: why it is no
    measurement under this load, though it can be simulated; "" if it is one.
    """

    who: str
    system: str
    backend: str
    model: str
    dtype: str
    kv_dtype: str
    tp: int
    isl: int
    osl: int
    users: int
    ttft_ms: float
    tpot_ms: float
    mixes_prompts: bool = True
    recording: str = ""
    doubt: str = ""

    @property
    def mean_isl(self) -> float:
        """Of the lengths that the client draws."""
        return self.isl * (1 + LENGTH_RATIO[self.who]) / 2

    @property
    def mean_osl(self) -> float:
        """Of the lengths that the client draws."""
        return self.osl * (1 + LENGTH_RATIO[self.who]) / 2


def read_servers(path: Path) -> tuple[list[Server], Counter[str]]:
    """(rows that can be simulated, doubtful ones last; how many others each rule leaves out)."""
    servers: list[Server] = []
    excluded: Counter[str] = Counter()
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for row in csv.DictReader(file):
            reason = _unusable(row)
            if reason is None:
                servers.append(_server(row))
            else:
                excluded[reason] += 1
    judged = [
        server._replace(
            mixes_prompts=_mixes_prompts(rows),
            doubt=server.doubt or (REUSED if reuses_prompts(rows) else ""),
        )
        for rows in _recordings(servers)
        for server in rows
    ]
    return sorted(judged, key=lambda server: server.doubt != ""), excluded


def _recordings(servers: list[Server]) -> list[list[Server]]:
    """The rows of each recording, in the order of the file."""
    found: dict[str, list[Server]] = {}
    for server in servers:
        found.setdefault(server.recording, []).append(server)
    return list(found.values())


def _mixes_prompts(recording: list[Server]) -> bool:
    """TensorRT-LLM and vLLM do; SGLang does where AIConfigurator's generator launched it.

    Its rule for SGLang sets `enable_mixed_chunk`, which is off by default. A recording under loads
    that are no powers of two is taken to be of such servers: those are the batch sizes that
    AIConfigurator proposes; who launches servers by hand goes up in twos.

    Source: AIConfigurator, `generator/rule_plugin/sglang.rule`.
    """
    is_proposed = any(server.users & (server.users - 1) for server in recording)
    return recording[0].backend != "sglang" or is_proposed


def _unusable(row: dict[str, str]) -> str | None:
    """Why a row cannot be priced or simulated; the first rule that applies."""
    users, batch = row["concurrency"], row["batch_size"]
    rules = {
        "prefill and decode on different GPUs": row["mode"] != "agg",
        "no dense model with bundled sizes": _model(row) is None,
        "four-bit weights": "fp4" in row["precision"] + row["gemm_quant_mode"],
        "no kernels of that GPU or back end": row["system"] not in systems()
        or row["backend"] not in BACKENDS,
        "several replicas or pipeline stages": bool(
            users and batch and float(users) != float(batch)
        )
        or float(row["pp_size"] or 1) != 1,
        "no load": not (users or batch),
        "one output token": float(row["osl"]) < 2,
    }
    return next((rule for rule, applies in rules.items() if applies), None)


def _model(row: dict[str, str]) -> str | None:
    name = row["model_path"].rpartition("/")[2].lower()
    known = [held for held in bundled_models() if name.startswith(held)]
    held = max(known, key=len, default=None)
    return None if held is None or find_model(held).experts else held


def _server(row: dict[str, str]) -> Server:
    """FP8 as recorded; where the checkpoint is known, NVIDIA's, with static scales.

    Source: InferenceX's README names nvidia/Llama-3.1-70B-Instruct-FP8 and `--kv-cache-dtype fp8`
    on B200; TensorRT-LLM takes the FP8 KV cache that this checkpoint asks for.
    """
    who = "NVIDIA" if row["source"].startswith("gap-analysis") else "InferenceX"
    dtype = row["gemm_quant_mode"] or "bfloat16"
    is_nvidia = who == "InferenceX" or row["model_path"].startswith("nvidia/")
    if dtype == "fp8" and is_nvidia:
        dtype = "fp8_static"
    has_fp8_kv = row["backend"] == "trtllm" or row["system"].startswith("b200")
    return Server(
        who=who,
        system=row["system"],
        backend=row["backend"],
        model=str(_model(row)),
        dtype=dtype,
        kv_dtype="fp8" if dtype == "fp8_static" and has_fp8_kv else "bfloat16",
        tp=int(float(row["tp_size"])),
        isl=int(float(row["isl"])),
        osl=int(float(row["osl"])),
        users=int(float(row["concurrency"] or row["batch_size"])),
        ttft_ms=float(row["silicon_ttft_ms"]),
        tpot_ms=float(row["silicon_tpot_ms"]),
        recording="/".join(row[key] for key in RECORDING),
        doubt="" if row["concurrency"] else NO_CONCURRENCY,
    )
