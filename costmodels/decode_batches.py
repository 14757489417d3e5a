"""`DecodeBatches`: what the number of decodes costs, and how much the longest context counts."""

from __future__ import annotations

from bisect import bisect_left

from .counted import padded_size
from .lines import fixed
from .steps_parameters import StepsParameters


class DecodeBatches:
    """Prices by number of decodes, in 2**-16 ns; see `StepsParameters`.

    A decode-attention kernel works with one thread block per sequence and KV head, and splits each
    context over as many blocks as then fit the GPU: with S sequences to a wave (multiprocessors /
    KV heads per GPU) and n decodes, padded to p, into s = max(1, floor(S / p)) parts; more than
    fit wait for another wave. The longest context is read last: it counts ceil(n s / S) / s times.

    Source: NVIDIA TensorRT-LLM, `fmhaKernels.h` (trtllm-gen kernels, which FlashInfer and vLLM run
    on Blackwell): numCtasPerSeqKv = multiprocessors / (blocks of all sequences and heads).

    18.5 sequences to a wave (148 multiprocessors, 8 KV heads), batches of 8 and 32 captured: 5
    decodes are split in 2, 20 need two waves:

    >>> given = StepsParameters(
    ...     step_ms=1,
    ...     decode_batch_sizes=(8, 32),
    ...     longest_context_ms_per_token=1,
    ...     longest_context_sequences_per_wave=18.5,
    ... )
    >>> [DecodeBatches(given).longest(seqs) / fixed(1) for seqs in (5, 9, 20, 40)]
    [0.5, 1.0, 2.0, 3.0]
    """

    __slots__ = ("_full_at", "_levels", "_longest", "_sizes", "_wave", "sequence", "step")

    def __init__(self, given: StepsParameters) -> None:
        self.step = fixed(given.step_ms)
        self.sequence = fixed(given.decode_ms_per_sequence)
        self._longest = fixed(given.longest_context_ms_per_token)
        self._full_at = given.longest_context_full_at_sequences
        self._wave = given.longest_context_sequences_per_wave
        self._sizes = given.decode_batch_sizes
        self._levels = [fixed(price) for price in given.decode_batch_ms]

    def padded(self, seqs: int) -> int:
        """The captured batch that holds so many decodes; their own number if none does."""
        return padded_size(self._sizes, seqs)

    def level(self, seqs: int) -> int:
        """The price of that batch, or the last price there is; 0 without decodes."""
        if not seqs or not self._levels:
            return 0
        return self._levels[min(bisect_left(self._sizes, seqs), len(self._levels) - 1)]

    def longest(self, seqs: int) -> int:
        """The price of a token of the longest context beside so many decodes."""
        if not self._wave:
            return self._longest * min(seqs, self._full_at) // self._full_at
        if not seqs:
            return 0
        parts, waves = attention_waves(seqs, self.padded(seqs), self._wave)
        return self._longest * waves // parts


def attention_waves(seqs: int, padded: int, wave: float) -> tuple[int, int]:
    """(parts each context is split into, waves until all are read); see `DecodeBatches`."""
    parts = max(1, int(wave // padded))
    return parts, max(1, int(-(-seqs * parts // wave)))
