"""`Inputs`: makes what a step computes on from what a scheduler said of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .batch import Batch, Chunk
from .sizes import DecoderSizes

DEFAULT_POSITIONS = 2048


class Inputs:
    """Of a model on a device. generator: for tokens that are not given."""

    def __init__(
        self,
        sizes: DecoderSizes,
        device: torch.device,
        dtype: torch.dtype,
        generator: torch.Generator,
    ) -> None:
        self._sizes, self._device, self._dtype = sizes, device, dtype
        self._generator = generator
        self._rotation = self._rotations(sizes.max_model_len or DEFAULT_POSITIONS)

    def batch(
        self,
        chunks: Sequence[Chunk],
        contexts: Sequence[int],
        tokens: Sequence[int] | None,
        padding: int,
    ) -> Batch:
        """As `Decoder.batch`."""
        positions = list(contexts)
        ends = list(range(len(contexts)))
        for chunk in chunks:
            positions.extend(range(chunk.past, chunk.past + chunk.new))
            ends.append(len(positions) - 1)
        positions += [0] * padding
        if max(positions) >= len(self._rotation[0]):
            self._rotation = self._rotations(2 * max(positions))
        at, held = self._integers(positions), self._integers(contexts)
        reach = torch.arange(max(contexts, default=-1) + 1, device=self._device)
        hidden = (reach > held[:, None])[:, None, None, :]
        return Batch(
            chunks=tuple(chunks),
            contexts=held,
            slots=torch.arange(len(contexts), device=self._device),
            tokens=self._random_tokens(len(positions))
            if tokens is None
            else self._integers(tokens),
            rotation=(self._rotation[0][at], self._rotation[1][at]),
            mask=torch.zeros(hidden.shape, device=self._device, dtype=self._dtype).masked_fill_(
                hidden, float("-inf")
            ),
            logit_rows=self._integers(ends),
            padding=padding,
        )

    def _integers(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, device=self._device, dtype=torch.long)

    def _random_tokens(self, count: int) -> Tensor:
        return torch.randint(
            *(0, self._sizes.vocabulary, (count,)), device=self._device, generator=self._generator
        )

    def _rotations(self, positions: int) -> tuple[Tensor, Tensor]:
        """Cosines and sines of every position, shape (positions, 1, head size / 2) each."""
        half = torch.arange(self._sizes.head_dim // 2, device=self._device)
        at = torch.arange(positions, device=self._device, dtype=torch.float32)
        angles = at[:, None] * self._sizes.rope_theta ** (-2.0 * half / self._sizes.head_dim)
        return angles.cos().to(self._dtype)[:, None], angles.sin().to(self._dtype)[:, None]
