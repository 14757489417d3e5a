"""What a step log does not say, worked out from what it says: token pairs and longest context.

A log has sums and variances over the requests of a step. Two facts of the engine fill the gap:
between two steps at most one prompt is part-done (it was cut at the end of one step and is first in
the next), and a request decodes one step after the one that finished its prompt. So the sum and
the sum of squares of the contexts, from one step to the next, tell who joined and who left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .step_log import Bools, Floats, StepLog


class Prefill(NamedTuple):
    """The prompt side of every step; shape (steps,) each.

    pairs: sum over chunks of new x (past + new / 2), the token pairs that attention computes.
    finished: prompts that the step finishes; finished_tokens, finished_squares: their lengths, and
        the squares of their lengths, summed.
    exact: False where the log does not determine finished_squares; the cut prompt of that step
        is then taken to be as long as the mean of the finished ones.
    """

    pairs: Floats
    finished: Floats
    finished_tokens: Floats
    finished_squares: Floats
    exact: Bools


class Contexts(NamedTuple):
    """The decode side of every step and the change to the next; shape (steps,) each.

    squares: of the contexts, summed. joined_less_left, joined_less_left_squares: sums over the
    requests that join at the next step less those that leave before it.
    """

    squares: Floats
    joined_less_left: Floats
    joined_less_left_squares: Floats


def contexts_of(log: StepLog) -> Contexts:
    """Sums over decode contexts. Everyone who stays grows by one token per step."""
    count, total = log.decode_seqs, log.decode_context
    mean = total / np.maximum(count, 1)
    squares = count * (log.context_variance + mean * mean)
    change = _next(total) - (total + count)
    return Contexts(squares, change, _next(squares) - (squares + 2 * total + count))


def prefill_of(log: StepLog) -> Prefill:
    """Token pairs and finished prompts of every step.

    H: tokens of the first prompt before the step; C: those of a prompt cut at its end. With the
    lengths L of the prompts that the step finishes, pairs = (sum of L^2 - H^2 + C^2) / 2. Sum of
    L is prefill_tokens + H - C; sum of L^2 shows in the decode contexts of the next step if at
    most one request left there, and else follows from the variance of all prompt lengths.
    """
    count, past = log.prefill_requests, log.prefill_past
    has_next = _next(log.follows)
    after = np.where(has_next * count > 0, _next(past), 0.0)
    after = np.where(after <= log.prefill_tokens + past, after, 0.0)
    cut = after > 0
    finished = count - cut
    tokens = (log.prefill_tokens + past - after) * (count > 0)
    # A cut prompt is taken to be as long as the mean of the finished ones …
    last = np.where(cut & (finished > 0), np.maximum(tokens / np.maximum(finished, 1), after), 0.0)
    mean = (tokens + last) / np.maximum(count, 1)
    squares = np.where(finished > 0, count * (log.prompt_variance + mean * mean) - last**2, 0.0)
    exact = ~cut | (finished == 0) | (log.prompt_variance == 0)
    # … unless the contexts of the next step tell.
    change = contexts_of(log)
    left = log.decode_seqs + finished - _next(log.decode_seqs)
    left_tokens = tokens - change.joined_less_left
    told = (has_next > 0) & (finished > 0) & ((left == 0) | (left == 1))
    told_squares = change.joined_less_left_squares + left * left_tokens**2
    squares = np.where(told & ~exact, told_squares, squares)
    pairs = np.where(count > 0, (squares - past**2 + after**2) / 2, 0.0)
    return Prefill(pairs, finished, tokens, squares, exact | told)


def longest_context_of(log: StepLog, prefill: Prefill) -> Floats:
    """The longest decode context of every step; shape (steps,), 0 without decodes.

    Follows every context from the step that finished its prompt. Exact while at most two requests
    join or leave at once; evenly spaced values of the right mean and variance stand for three or
    more. The result is always within the limits that mean and variance set.

    Source: Samuelson, "How deviant can you be?" (JASA 1968), for those limits.
    """
    count, total = log.decode_seqs, log.decode_context
    sums = contexts_of(log)
    follows = log.follows
    result = np.zeros(len(log))
    contexts: list[float] = []
    for step in range(len(log)):
        last = step - 1
        if follows[step]:
            joined = prefill.finished[last]
            tokens, squares = prefill.finished_tokens[last], prefill.finished_squares[last]
            contexts = [context + 1 for context in contexts] + _spread(joined, tokens, squares)
            gone_tokens = tokens - sums.joined_less_left[last]
            gone_squares = squares - sums.joined_less_left_squares[last]
            gone = count[last] + joined - count[step]
            _leave(contexts, _spread(gone, gone_tokens, gone_squares))
        if not follows[step] or len(contexts) != count[step]:
            contexts = _spread(count[step], total[step], sums.squares[step])
        result[step] = max(contexts, default=0.0)
    mean, deviation = total / np.maximum(count, 1), np.sqrt(log.context_variance)
    others = np.sqrt(np.maximum(count - 1, 1))
    limited = np.clip(result, mean + deviation / others, mean + deviation * others)
    return np.where(count > 0, limited, 0.0)


def _leave(contexts: list[float], gone: list[float]) -> None:
    """Take out the contexts nearest to those gone."""
    for context in gone:
        if contexts:
            contexts.remove(min(contexts, key=lambda member: abs(member - context)))


def _spread(count: float, total: float, squares: float) -> list[float]:
    """`count` evenly spaced values with this sum and this sum of squares.

    >>> _spread(2, 10.0, 58.0)
    [3.0, 7.0]
    """
    if count < 1:
        return []
    mean = total / count
    deviation = max(squares / count - mean * mean, 0.0) ** 0.5
    if count == 1 or deviation < 1:
        return [float(mean)] * int(count)
    half_width = deviation * (3 * (count - 1) / (count + 1)) ** 0.5
    return [float(value) for value in np.linspace(mean - half_width, mean + half_width, int(count))]


def _next(column: Floats | Bools) -> Floats:
    """Each row holds the next row's value; the last holds 0."""
    return np.append(column[1:], 0).astype(np.float64)
