"""What one step computes on, on the device: `Chunk`, `Cache` and `Batch`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple  # Any: the plans of libraries without types

from torch import Tensor


class Chunk(NamedTuple):
    """Some tokens of a prompt. slot: of the cache; past: tokens it holds already."""

    slot: int
    past: int
    new: int


class Cache(NamedTuple):
    """KV cache of one layer: keys and values, shape (slots, KV heads, width, head size)."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Batch:
    """A step's rows, on the device: `Decoder.batch` makes it.

    contexts: tokens in the cache of each decode, which has the slot of its number.
    rotation: cosines and sines, shape (tokens, 1, head size / 2) each. mask: what each decode may
    attend to, additive, shape (decodes, 1, 1, longest context + 1). logit_rows: rows that get
    logits. padding: rows behind the others that only fill a captured batch size. plans: what an
    attention library has worked out for this batch, by what it depends on.
    """

    chunks: tuple[Chunk, ...]
    contexts: Tensor
    slots: Tensor
    tokens: Tensor
    rotation: tuple[Tensor, Tensor]
    mask: Tensor
    logit_rows: Tensor
    padding: int = 0
    plans: dict[int, Any] = field(default_factory=dict)

    @property
    def decodes(self) -> int:
        """Rows that decode."""
        return len(self.contexts)
