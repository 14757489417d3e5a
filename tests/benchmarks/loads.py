"""The loads of the speed comparison, and one run of ours on each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simulator import (
    ChunkedPrefillScheduler,
    CostModel,
    KVCache,
    PrefixCache,
    Result,
    Trace,
    VllmScheduler,
    simulate,
)
from workloads import generate, read_trace

from .prices import BLOCK_SIZE, BLOCKS, PeerPrices, tangent

REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS = 10_000, 1000, 200
MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS = 8192, 256
TRACES = Path(__file__).resolve().parents[3] / "shared/traces"
AZURE = TRACES / "azure_llm_2023_conv.csv.gz"
MOONCAKE = TRACES / "mooncake_fast25_conversation.jsonl.gz"


@dataclass(frozen=True, slots=True)
class Load:
    """source: Poisson arrivals per second, or a trace, when it happened.

    cache_use: mean share of the KV cache in use under the peer's own prices, measured; where the
    linear model touches them.
    """

    name: str
    source: float | Path
    cache_use: float

    @property
    def is_here(self) -> bool:
        """Whether its data is."""
        return not isinstance(self.source, Path) or self.source.exists()

    def trace(self) -> Trace:
        """The requests."""
        if isinstance(self.source, Path):
            return read_trace(self.source)
        prompt, output = f"fixed:{PROMPT_TOKENS}", f"fixed:{OUTPUT_TOKENS}"
        return generate(requests=REQUESTS, rate=self.source, prompt=prompt, output=output)

    def simulate(self, way: str) -> Result:
        """Serve the load; way: a name in `WAYS`."""
        prices: CostModel = PeerPrices() if way == "peer" else tangent(self.cache_use)
        limits = MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
        if way == "vllm as is":
            cache = PrefixCache(BLOCKS, BLOCK_SIZE)
            return simulate(self.trace(), VllmScheduler(*limits), prices, cache)
        policy = VllmScheduler if way == "vllm" else ChunkedPrefillScheduler
        counted = KVCache(BLOCKS, BLOCK_SIZE)
        return simulate(self.trace(), policy(*limits), prices, counted, async_scheduling=False)


WAYS = ("linear", "peer", "vllm", "vllm as is")
"""`chunked` with linear prices and with the peer's own; `vllm` with linear ones, doing the same
work, and as it comes: an asynchronous pipeline and prefix caching."""

LOADS = {
    load.name: load
    for load in (
        Load("2 req/s", 2, 0.013),
        Load("8 req/s", 8, 0.101),
        Load("16 req/s", 16, 0.726),
        Load("30 req/s", 30, 0.959),
        Load("azure", AZURE, 0.068),
    )
}
"""From nearly idle to far beyond what the simulated engine can serve."""


def available() -> dict[str, Load]:
    """The loads whose data is here."""
    return {name: load for name, load in LOADS.items() if load.is_here}
