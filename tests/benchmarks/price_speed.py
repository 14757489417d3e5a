"""What one price costs the simulator: decode-only and mixed steps, every kind of cost model."""

from __future__ import annotations

import timeit

from costmodels import (
    GPUS,
    LoadedCostModel,
    Operator,
    OperatorGrids,
    OperatorsCostModel,
    RooflineCostModel,
    StepsCostModel,
    find_model,
    load_cost_model,
)
from simulator import StepShape

from .report import middle, write, write_row

DECODE_LIMIT_US, MIXED_LIMIT_US = 2.0, 5.0
ROUNDS, CALLS = 7, 20_000
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def operators() -> OperatorsCostModel:
    """A table as large as a GPU's: ten operators, 14 x 8 attention points of each kind."""
    contexts = (16, 64, 256, 1024, 4096, 16384, 32768, 65536)
    attention = [(0, 0, n, c, 5 + n * c / 1e5) for n in COUNTS[:9] for c in contexts]
    attention += [(n, c - 16, 0, 0, 5 + n * c / 1e5) for n in COUNTS for c in contexts]
    attention += [(16, 0, n, c, 9 + n * c / 1e5) for n in (1, 16, 256) for c in contexts]
    counted = {
        f"operator {i}": Operator(axis="tokens", points=tuple((n, 9 + n / 50) for n in COUNTS))
        for i in range(8)
    }
    counted["lm_head"] = Operator(
        axis="sequences", per="step", points=tuple((n, 99 + n) for n in COUNTS[:9])
    )
    return OperatorsCostModel(
        OperatorGrids(counted, tuple(sorted(attention))),
        layers=32,
        decode_batch_sizes=[1, 2, 4, *range(8, 257, 8)],
    )


def models() -> dict[str, LoadedCostModel]:
    """One of every kind that prices real devices."""
    return {
        "operators": operators(),
        "steps": StepsCostModel(
            step_ms=11.11, compute_ms_per_token=0.0387, knee_tokens=255,
            attention_tokens_per_pair=1 / 24_000, decode_ms_per_sequence=0.040,
            decode_ms_per_context_token=6.1e-5,
        ),
        "linear": load_cost_model("b300-qwen3-32b-tp1"),
        "roofline": RooflineCostModel(GPUS["h100-sxm"], find_model("llama-3.1-8b")),
        "lesson": load_cost_model("lesson"),
    }  # fmt: skip


def price_us(model: LoadedCostModel, shapes: list[StepShape]) -> list[float]:
    """Microseconds of one price, over steps that differ; one number a round."""
    step_ns, calls = model.step_ns, CALLS // len(shapes)

    def all_of_them() -> None:
        for shape in shapes:
            step_ns(shape)

    rounds = timeit.repeat(all_of_them, number=calls, repeat=ROUNDS)
    return [seconds / (calls * len(shapes)) * 1e6 for seconds in rounds]


def measure() -> None:
    """Write what every model's prices cost, and the limits they are held to."""
    decodes = [StepShape((), 64, 64 * 1000 + 64 * k, 2000 + k) for k in range(100)]
    mixed = [StepShape(((512 - k % 9, 512),), 63, 63_000 + 63 * k, 2000 + k) for k in range(100)]
    write(f"One price, microseconds: median (fastest-slowest) of {ROUNDS} rounds of {CALLS:,}")
    write_row(["", "decode-only", "limit", "mixed", "limit"], width=20)
    for name, model in models().items():
        limits = (DECODE_LIMIT_US, MIXED_LIMIT_US)
        prices = (middle(price_us(model, shapes)) for shapes in (decodes, mixed))
        cells = [cell for pair in zip(prices, limits, strict=True) for cell in pair]
        write_row([name, *cells], width=20)
