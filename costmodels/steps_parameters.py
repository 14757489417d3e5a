"""`StepsParameters`: the parameters of `StepsCostModel`, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real

from simulator.errors import ConfigError, nearest

from .lines import MAX_FULL_AT
from .pricing import checked
from .table import Value

MAX_WAVE = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsParameters:
    """What a step costs, milliseconds; absent terms are 0.

    step_ms: every step: launch, and the weights read once.
    compute_ms_per_token: a token's matrices, beyond knee_tokens: below it, reading the weights
        takes longer than using them. attention_tokens_per_pair: about 1/30,000 for a 32B model
        (`ModelConfig.attention_tokens_per_pair`), times 1 to 3 where attention runs at a lower
        share of the peak.
    prefill_step_ms: a step with prompts: another code path, sampler and metadata.
    continued_prompt_ms: a step with a chunk whose prompt is part-done.
    captured_tokens: tokens of the largest CUDA graph; a step with prompts and more tokens is
        launched kernel by kernel, costs uncaptured_step_ms more, and takes uncaptured_floor_ms at
        least: the host's time to launch it.
    decode_ms_per_sequence: each decode.
    decode_batch_sizes, decode_batch_ms: captured decode batches and what each costs, ascending;
        decodes are padded to the next size. Batches beyond the last price cost the same.
    decode_ms_per_context_token: KV cache read. longest_context_ms_per_token: of the longest
        context, at its full share; the share grows in proportion up to
        longest_context_full_at_sequences, or by `DecodeBatches` with
        longest_context_sequences_per_wave: multiprocessors / KV heads per GPU.
    decode_attention: `sum` of these two, or `max`: reading all contexts keeps the memory busy, or
        the block that reads the longest one is still at it, whichever takes longer.
    compute_tile_tokens: rows of a matrix kernel's tile; a step with prompts fills whole ones.
    boost_saving_ms, boost_recovery_ms: of a step with prompts after a pause; see `BoostClock`.
    """

    step_ms: float
    compute_ms_per_token: float = 0.0
    knee_tokens: float = 0.0
    attention_tokens_per_pair: float = 0.0
    prefill_step_ms: float = 0.0
    continued_prompt_ms: float = 0.0
    captured_tokens: int = 0
    uncaptured_step_ms: float = 0.0
    uncaptured_floor_ms: float = 0.0
    decode_ms_per_sequence: float = 0.0
    decode_batch_sizes: tuple[int, ...] = ()
    decode_batch_ms: tuple[float, ...] = ()
    decode_ms_per_context_token: float = 0.0
    longest_context_ms_per_token: float = 0.0
    longest_context_full_at_sequences: int = 1
    longest_context_sequences_per_wave: float = 0.0
    compute_tile_tokens: int = 1
    boost_saving_ms: float = 0.0
    boost_recovery_ms: float = 0.0
    decode_attention: str = "sum"

    @classmethod
    def checked(cls, given: Mapping[str, Given]) -> StepsParameters:
        """Raises ConfigError naming the parameter, its value and what it must be."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"steps has no parameter {name!r}{nearest(name, known)} "
                    f"(known: {', '.join(known)})"
                )
        lists = {name: _numbers(name, given.get(name, ())) for name in LISTS}
        counts = {name: _whole(name, given[name]) for name in COUNTS if name in given}
        others = (*LISTS, *COUNTS, "decode_attention")
        single = {k: _number(k, v) for k, v in given.items() if k not in others}
        sizes = tuple(_whole("decode_batch_sizes", size) for size in lists["decode_batch_sizes"])
        _check(single.get("step_ms", 0.0), counts, single)
        _check_batches(sizes, lists["decode_batch_ms"])
        batches = {"decode_batch_sizes": sizes, "decode_batch_ms": lists["decode_batch_ms"]}
        attention = _attention(given.get("decode_attention", "sum"))
        # The names are those of the fields, the values have been checked above.
        return cls(**checked(single), **counts, **batches, decode_attention=attention)  # type: ignore[arg-type]

    def described(self) -> dict[str, Value]:
        """By name, without the terms that are absent."""
        given: dict[str, Value] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                given[field.name] = list(value) if isinstance(value, tuple) else value
        return given


Given = float | str | Sequence[float]
"""What a parameter may be before it is checked."""

LISTS = ("decode_batch_sizes", "decode_batch_ms")
COUNTS = ("captured_tokens", "longest_context_full_at_sequences", "compute_tile_tokens")
MAX_TILE = 1024
"""Rows of the largest tile a matrix kernel may have."""


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError(f"{name} is {value!r}: must be a number")
    return float(value)


def _attention(value: object) -> str:
    if value not in ("sum", "max"):
        raise ConfigError(f"decode_attention is {value!r}: must be sum or max")
    return str(value)


def _whole(name: str, value: object) -> int:
    number = _number(name, value)
    if number != number // 1 or number < 0:
        raise ConfigError(f"{name} is {value!r}: must be a whole number, at least 0")
    return int(number)


def _numbers(name: str, values: object) -> tuple[float, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ConfigError(f"{name} is {values!r}: must be a list of numbers")
    return tuple(checked({name: _number(name, value)})[name] for value in values)


def _check(step_ms: float, counts: Mapping[str, int], single: Mapping[str, float]) -> None:
    if not step_ms:
        raise ConfigError("step_ms is 0: every step reads the weights, and that takes time")
    full_at = counts.get("longest_context_full_at_sequences", 1)
    if not 1 <= full_at <= MAX_FULL_AT:
        raise ConfigError(
            f"longest_context_full_at_sequences is {full_at}: must be 1 to {MAX_FULL_AT}"
        )
    tile = counts.get("compute_tile_tokens", 1)
    if not 1 <= tile <= MAX_TILE:
        raise ConfigError(f"compute_tile_tokens is {tile}: must be 1 to {MAX_TILE}")
    wave = single.get("longest_context_sequences_per_wave", 0.0)
    if wave and (full_at > 1 or not 1 <= wave <= MAX_WAVE):
        raise ConfigError(
            f"longest_context_sequences_per_wave is {wave:g}: must be 1 to {MAX_WAVE:g}, and "
            "longest_context_full_at_sequences is another way to say the same: set one of them"
        )


def _check_batches(sizes: tuple[int, ...], prices_ms: tuple[float, ...]) -> None:
    if list(sizes) != sorted({*sizes}) or (sizes and sizes[0] < 1):
        raise ConfigError(f"decode_batch_sizes is {list(sizes)}: must be ascending, from 1")
    if len(prices_ms) > len(sizes):
        raise ConfigError(
            f"decode_batch_ms has {len(prices_ms)} prices for {len(sizes)} decode_batch_sizes: "
            "give one each, or leave out those of the largest"
        )
    if list(prices_ms) != sorted(prices_ms):
        raise ConfigError(
            f"decode_batch_ms is {list(prices_ms)}: must not fall, a larger batch costs no less"
        )
