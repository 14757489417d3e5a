"""What the vendors' datasheets say about well-known GPUs."""

from __future__ import annotations

from typing import NamedTuple

from simulator.errors import ConfigError, nearest

GIB = 1024**3


class GPU(NamedTuple):
    """One GPU, from its datasheet.

    flops: dense bf16 tensor-core FLOP/s with fp32 accumulation (without sparsity).
    bandwidth_bytes_per_s: memory bandwidth. memory_bytes: memory capacity.
    link_bytes_per_s: to the other GPUs of the node, one direction.
    source: the datasheet. multiprocessors and clock_hz, at its highest: as published device
    queries have them, not checked here; None where not known.
    """

    title: str
    flops: float
    bandwidth_bytes_per_s: float
    memory_bytes: int
    link_bytes_per_s: float
    source: str
    multiprocessors: int | None = None
    clock_hz: float | None = None


GPUS: dict[str, GPU] = {
    "a100-80g-sxm": GPU(
        *("NVIDIA A100 80GB SXM", 312e12, 2.039e12, 80 * GIB, 300e9),
        "NVIDIA A100 Tensor Core GPU datasheet",
        *(108, 1.41e9),
    ),
    "h100-sxm": GPU(
        *("NVIDIA H100 SXM", 989.5e12, 3.35e12, 80 * GIB, 450e9),
        "NVIDIA H100 Tensor Core GPU datasheet (1,979 TFLOP/s with sparsity)",
        *(132, 1.98e9),
    ),
    "h200-sxm": GPU(
        *("NVIDIA H200 SXM", 989.5e12, 4.8e12, 141 * GIB, 450e9),
        "NVIDIA H200 Tensor Core GPU datasheet (1,979 TFLOP/s with sparsity)",
        *(132, 1.98e9),
    ),
    "b200-sxm": GPU(
        *("NVIDIA B200 SXM", 2250e12, 8e12, 180 * GIB, 900e9),
        "NVIDIA HGX B200 specifications, per GPU (36 PFLOP/s with sparsity for eight)",
        *(148, 1.965e9),
    ),
    "b300-sxm": GPU(
        *("NVIDIA B300 SXM", 2250e12, 8e12, 288_000_000_000, 900e9),
        "NVIDIA HGX B300 specifications, per GPU (36 PFLOP/s with sparsity for eight; 288 GB)",
        *(148, 1.92e9),
    ),
    "l40s": GPU(
        *("NVIDIA L40S", 362.05e12, 864e9, 48 * GIB, 32e9),
        "NVIDIA L40S datasheet (733 TFLOP/s with sparsity; PCIe 4.0 x16)",
        *(142, 2.52e9),
    ),
    "rtx-4090": GPU(
        *("NVIDIA GeForce RTX 4090", 165.2e12, 1008e9, 24 * GIB, 32e9),
        "NVIDIA Ada GPU architecture whitepaper (fp32 accumulation; PCIe 4.0 x16)",
        *(128, 2.52e9),
    ),
}
"""By name. The capacities of these HBM parts are sold in GB but counted in GiB, save the B300's;
a driver, and ECC where memory is GDDR6, keep a few per cent of it: give your own number where
KV capacity must be exact."""


def find_gpu(name: str) -> GPU:
    """A GPU by name or title; ConfigError lists the known ones."""
    for gpu in GPUS.values():
        if name == gpu.title:
            return gpu
    if name not in GPUS:
        raise ConfigError(
            f"device {name!r} is unknown{nearest(name, GPUS)} (known: {', '.join(GPUS)})"
        )
    return GPUS[name]
