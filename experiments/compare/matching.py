"""Which request of one log is which of another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .log import Log

Rows = NDArray[np.intp]

ENOUGH = 0.8
"""Matching fewer of the smaller log's requests than this is no matching."""

_ALIKE = 0.02
_ALIKE_TOKENS = 16.0
"""Prompt lengths this near are equal: chat templates and special tokens add a few."""


class Matching(NamedTuple):
    """Pairs of rows. how: in words, for a sentence that ends "matched ..."."""

    first: Rows
    second: Rows
    how: str


def match(first: Log, second: Log) -> Matching | None:
    """By id, else by order, else by prompt and output length; None if nothing tells them apart.

    A match by id or order must agree in prompt tokens, where both logs have them.
    """
    if not len(first) or not len(second):
        return None
    for found in (_by_id(first, second), _by_order(first, second), _by_length(first, second)):
        if found is not None and len(found.first) >= ENOUGH * min(len(first), len(second)):
            return found
    return None


def _by_id(first: Log, second: Log) -> Matching | None:
    if first.ids is None or second.ids is None:
        return None
    place = {name: row for row, name in enumerate(second.ids)}
    if len(place) < len(second.ids) or len(set(first.ids)) < len(first.ids):
        return None
    pairs = [(row, place[name]) for row, name in enumerate(first.ids) if name in place]
    rows = np.array(pairs, np.intp).reshape(-1, 2)
    found = Matching(rows[:, 0], rows[:, 1], "by id")
    return found if _agree(first, second, found) else None


def _by_order(first: Log, second: Log) -> Matching | None:
    if len(first) != len(second):
        return None
    rows = np.arange(len(first))
    found = Matching(rows, rows, "by order")
    known = "prompt_tokens" in first.requests and "prompt_tokens" in second.requests
    return found if known and _agree(first, second, found) else None


def _agree(first: Log, second: Log, pairs: Matching) -> bool:
    """Do nearly all pairs have the same prompt length, as far as both logs know it?"""
    if "prompt_tokens" not in first.requests or "prompt_tokens" not in second.requests:
        return True
    here = first.requests["prompt_tokens"][pairs.first]
    there = second.requests["prompt_tokens"][pairs.second]
    near = np.abs(here - there) <= np.maximum(_ALIKE * np.maximum(here, there), _ALIKE_TOKENS)
    return bool(len(near)) and float(np.mean(near)) >= 0.95


def _by_length(first: Log, second: Log) -> Matching | None:
    """Requests of equal prompt and output length, in the order they came."""
    lengths = [
        [log.requests.get(name) for name in ("prompt_tokens", "output_tokens")]
        for log in (first, second)
    ]
    if any(column is None for pair in lengths for column in pair):
        return None
    waiting: dict[tuple[float, ...], list[int]] = {}
    for row, key in enumerate(zip(*lengths[1], strict=True)):
        waiting.setdefault(key, []).append(row)
    pairs = []
    for row, key in enumerate(zip(*lengths[0], strict=True)):
        if waiting.get(key):
            pairs.append((row, waiting[key].pop(0)))
    rows = np.array(pairs, np.intp).reshape(-1, 2)
    return Matching(rows[:, 0], rows[:, 1], "by prompt and output length, in order of arrival")
