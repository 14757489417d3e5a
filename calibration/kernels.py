"""The torch work of a decoder, kernel by kernel and as a whole step.

Fused QKV, rotary embedding, attention over a KV cache, output, fused gate and up, SiLU x up, down
(or a router and its experts), RMSNorm before attention and MLP; embedding, output projection and a
sampler that draws from the softmax as vLLM does. Weights and inputs are random, never zeros: some
devices are faster on zeros. Rows of a step: decodes first, then the prompt chunks, then padding.

Source: Touvron et al., "LLaMA" (2023), section 2.2; Ainslie et al., "GQA" (2023); Su et al.,
"RoFormer" (2021), section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  # the name all torch code gives it
from torch import Tensor

from .attention import Backend, choose_backend
from .batch import Batch, Cache, Chunk
from .experts import Routed, activated
from .inputs import Inputs
from .kv_dtype import quantised, writable
from .layers import DENSE_MLP, SPARSE_MLP, Layer, random_layer, through_mlp
from .sizes import DecoderSizes
from .timing import Lap

EPSILON = 1e-6

ATTENTION = "attention"
PER_LAYER = ("norms", "qkv", "rope", ATTENTION, "o", *DENSE_MLP, *SPARSE_MLP)
"""Laps of a step that come once a layer (both norms are one); all by tokens, but attention."""
INPUTS = "inputs"
"""Making the step's inputs from what the scheduler said: on a CPU its time adds to the kernels'."""
BY_TOKENS_ONCE = (INPUTS, "embedding")
BY_SEQUENCES_ONCE = ("final_norm", "lm_head", "sampler")
"""Laps that come once a step."""


def _no_lap(name: str) -> None:
    """Nobody measures."""


class Decoder:
    """Random weights of a model on a device, and the calls that a serving engine makes on them.

    cache_tokens: how many tokens the KV cache holds, over all sequences. kv_dtype: of the cache,
    None for that of the weights. attention_backend: a name of `attention.BACKENDS`, or `auto` for
    the first that runs; CalibrationError if none does. backend: the one that runs;
    refused_backends: why those before it do not. routed: where the last step's tokens went, layer
    by layer, if there are experts.
    """

    def __init__(
        self,
        sizes: DecoderSizes,
        *,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        cache_tokens: int = 4096,
        seed: int = 0,
        kv_dtype: torch.dtype | None = None,
        attention_backend: str = "auto",
    ) -> None:
        self.sizes, self.device, self.dtype = sizes, torch.device(device), dtype
        self.kv_dtype = kv_dtype or dtype
        self._generator = torch.Generator(self.device).manual_seed(seed)
        hidden = sizes.hidden
        self.layers = [random_layer(sizes, self.random) for _ in range(sizes.layers)]
        self.head_norm = 1 + self.random(sizes.head_dim, scale=0.1)
        self.embeddings = self.random(sizes.vocabulary, hidden)
        self.lm_head = (
            self.embeddings
            if sizes.ties_embeddings
            else self.random(sizes.vocabulary, hidden, scale=hidden**-0.5)
        )
        elements = cache_tokens * sizes.kv_heads * sizes.head_dim
        self._stored = [(self._held(elements), self._held(elements)) for _ in self.layers]
        self._inputs = Inputs(sizes, self.device, dtype, self._generator)
        self.routed: list[Routed] = []
        self.backend, self.refused_backends = choose_backend(
            attention_backend, self.device, self._probe
        )

    def random(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Normal random numbers on the device."""
        numbers = torch.empty(shape, device=self.device, dtype=self.dtype)
        return numbers.normal_(0.0, scale, generator=self._generator)

    def _held(self, elements: int) -> Tensor:
        return quantised(self.random(elements), self.kv_dtype)

    def _probe(self, backend: Backend) -> Tensor:
        """Attention of two decodes beside a chunk with a past, through a backend."""
        self.backend, sizes = backend, self.sizes
        shapes = [(7, heads, sizes.head_dim) for heads in (sizes.heads, *[sizes.kv_heads] * 2)]
        fixed = torch.Generator(self.device).manual_seed(1)
        kept, self._generator = self._generator, fixed
        q, k, v = (self.random(*shape) for shape in shapes)
        held = (self._held(3 * 16 * sizes.kv_heads * sizes.head_dim) for _ in range(2))
        cache = Cache(*(half.view(3, sizes.kv_heads, 16, sizes.head_dim) for half in held))
        attended = self.attend(cache, q, k, v, self.batch([Chunk(2, 4, 5)], [3, 9]))
        self._generator = kept
        return attended.cpu()

    def cache(self, layer: int, slots: int, width: int) -> Cache:
        """A layer's cache, laid out for `slots` sequences of `width` tokens."""
        shape = (slots, self.sizes.kv_heads, width, self.sizes.head_dim)
        elements = slots * width * self.sizes.kv_heads * self.sizes.head_dim
        keys, values = self._stored[layer]
        return Cache(keys[:elements].view(shape), values[:elements].view(shape))

    def batch(
        self,
        chunks: Sequence[Chunk],
        contexts: Sequence[int],
        tokens: Sequence[int] | None = None,
        *,
        padding: int = 0,
    ) -> Batch:
        """What the kernels of a step need beside weights and cache.

        tokens: what every row feeds in, decodes first; random by default. padding: rows more, which
        no sequence has, to fill a captured batch size.
        """
        return self._inputs.batch(chunks, contexts, tokens, padding)

    def embed(self, tokens: Tensor) -> Tensor:
        """Rows of the embedding table; (tokens, hidden)."""
        return F.embedding(tokens, self.embeddings)

    def norm(self, layer: Layer, stream: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        """Add to the residual stream and normalise; the new stream, and it normalised."""
        stream = stream + added
        return stream, F.rms_norm(stream, (self.sizes.hidden,), layer.norm, EPSILON)

    def project(self, layer: Layer, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The fused QKV GEMM; (tokens, heads, head size) each."""
        keys = self.sizes.heads
        values = keys + self.sizes.kv_heads
        fused = F.linear(rows, layer.qkv, layer.qkv_bias)
        heads = fused.view(len(rows), -1, self.sizes.head_dim)
        return heads[:, :keys], heads[:, keys:values], heads[:, values:]

    def rotate(self, q: Tensor, k: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Rotary embedding of queries and keys; before it, in Qwen3, their norm."""
        if self.sizes.has_qk_norm:
            shape = (self.sizes.head_dim,)
            q = F.rms_norm(q, shape, self.head_norm, EPSILON)
            k = F.rms_norm(k, shape, self.head_norm, EPSILON)
        return _rotated(q, *batch.rotation), _rotated(k, *batch.rotation)

    def attend(self, cache: Cache, q: Tensor, k: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Write keys and values to the cache, then attend: all decodes at once, each chunk alone.

        Returns (tokens, heads x head size).
        """
        attended, n = [], batch.decodes
        if n:
            for half, rows in zip(cache, (k, v), strict=True):
                writable(half)[batch.slots, :, batch.contexts] = self._written(rows[:n])
            attended.append(self.backend.of_decodes(q[:n], cache, batch))
        row = n
        for chunk in batch.chunks:
            part, row = slice(row, row + chunk.new), row + chunk.new
            span = slice(chunk.past, chunk.past + chunk.new)
            for half, rows in zip(cache, (k, v), strict=True):
                writable(half)[chunk.slot, :, span] = self._written(rows[part]).transpose(0, 1)
            attended.append(self.backend.of_chunk(q[part], cache, chunk))
        if batch.padding:
            attended.append(q[row:])
        out = attended[0] if len(attended) == 1 else torch.cat(attended)
        return out.reshape(len(q), -1)

    def _written(self, rows: Tensor) -> Tensor:
        return writable(quantised(rows, self.kv_dtype))

    def activate(self, gate_up: Tensor) -> Tensor:
        """SiLU of the gate, times up; (tokens, intermediate)."""
        return activated(gate_up)

    def sample(self, logits: Tensor) -> Tensor:
        """One token per row, drawn from the softmax: the largest of probability / exponential."""
        chances = logits.float().softmax(-1)
        return (chances / torch.empty_like(chances).exponential_()).argmax(-1)

    def step(self, batch: Batch, caches: Sequence[Cache], lap: Lap = _no_lap) -> Tensor:
        """A forward pass, to the sampled tokens; (rows with logits,).

        caches: of every layer that runs, the first ones. lap: called after every kernel.
        """
        self.routed = []
        added = self.embed(batch.tokens)
        stream = torch.zeros_like(added)
        lap("embedding")
        for layer, cache in zip(self.layers, caches, strict=False):
            stream, rows = self.norm(layer, stream, added)
            lap("norms")
            q, k, v = self.project(layer, rows)
            lap("qkv")
            q, k = self.rotate(q, k, batch)
            lap("rope")
            attended = self.attend(cache, q, k, v, batch)
            lap(ATTENTION)
            added = F.linear(attended, layer.output)
            lap("o")
            stream, rows = self.norm(layer, stream, added)
            lap("norms")
            added, routed = through_mlp(layer, rows, self.sizes.experts_per_token, lap)
            self.routed += [routed] if routed else []
        ends = batch.logit_rows
        _, rows = self.norm(self.layers[-1], stream[ends], added[ends])
        lap("final_norm")
        logits = F.linear(rows, self.lm_head)
        lap("lm_head")
        tokens = self.sample(logits)
        lap("sampler")
        return tokens


def _rotated(heads: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    first, second = heads.chunk(2, dim=-1)
    turned = (first * cosines - second * sines, second * cosines + first * sines)
    return torch.cat(turned, dim=-1)
