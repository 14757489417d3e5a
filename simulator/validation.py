"""Does a plan respect budget, memory and membership? Checked before anything is changed."""

from __future__ import annotations

from typing import NoReturn

from .decode_pool import DecodePool
from .errors import InvalidPlanError
from .plan import Decode, Holds, Plan
from .sequence import Sequence
from .view import EngineView

NOBODY: frozenset[Sequence] = frozenset()


def refuse_answer(policy: str, answer: object) -> NoReturn:
    """Raise: `plan` returned something else than a plan.

    Raises:
        InvalidPlanError: always.
    """
    returned = "None" if answer is None else f"a {type(answer).__name__}"
    raise InvalidPlanError(f"{policy}.plan() returned {returned}, must return a simulator.Plan")


def check_plan(plan: Plan, view: EngineView, token_limit: int | None) -> None:
    """Refuse a plan the engine could not carry out.

    Raises:
        InvalidPlanError: more tokens than `token_limit`, more blocks than are free, a chunk
            larger than what is left of its prompt, a sequence that is not where the plan says,
            or a promise to hold for a plan that does more than decode.
    """
    if not isinstance(plan.wake_ns, int | None):
        raise InvalidPlanError(
            f"plan wakes at {plan.wake_ns!r}, a {type(plan.wake_ns).__name__}: wake_ns must be a "
            "Python int, nanoseconds"
        )
    pool = view.decoding
    decode = plan.decode
    if not plan.prefill and not plan.preempt and decode is Decode.ALL:
        check_decodes(pool, view.kv.free_blocks, token_limit)
        return
    if plan.holds is not Holds.ONE_STEP:
        _refuse_long_hold(plan, view)
    free, gone = view.kv.free_blocks, NOBODY
    if plan.preempt:
        gone = frozenset(plan.preempt)
        if len(gone) != len(plan.preempt) or not gone <= view.running.keys():
            raise InvalidPlanError(f"plan preempts {plan.preempt}: not all running, or one twice")
        held = [view.blocks_of(sequence) for sequence in plan.preempt]
        free += view.kv.freed_by(list(plan.preempt), held)
    if decode is Decode.ALL and not gone:
        tokens, blocks = pool.size, pool.growth_blocks
    else:
        tokens, blocks = _decode_needs(plan, view, gone)
    tokens += view.planned_tokens or 0
    if plan.prefill:
        new, grown = _prefill_needs(plan, view, gone)
        tokens += new
        blocks += grown
    _check_limits(tokens, blocks, free, token_limit)


def check_decodes(pool: DecodePool, free_blocks: int, token_limit: int | None) -> None:
    """`check_plan` for a plan that lets everybody decode and does nothing else."""
    tokens, blocks = pool.size, pool.growth_blocks
    if blocks > free_blocks or (token_limit is not None and tokens > token_limit):
        _check_limits(tokens, blocks, free_blocks, token_limit)


def _refuse_long_hold(plan: Plan, view: EngineView) -> None:
    if plan.prefill or plan.more:
        if plan.holds is not Holds.WHILE_ALONE:
            raise InvalidPlanError(
                f"plan holds {plan.holds.value} but has prompts, which the next step has not: "
                "it may hold ONE_STEP, or WHILE_ALONE if everybody decodes once they are computed"
            )
        return
    everybody = isinstance(plan.decode, tuple) and len(plan.decode) == len(view.decoding)
    if not (everybody or plan.decode is Decode.ALL):
        raise InvalidPlanError(
            f"plan holds {plan.holds.value} but does not let everybody decode: only a plan with "
            "decode=ALL may hold longer than ONE_STEP"
        )


def _decode_needs(plan: Plan, view: EngineView, gone: frozenset[Sequence]) -> tuple[int, int]:
    pool = view.decoding
    if plan.decode is Decode.NONE:
        return 0, 0
    if isinstance(plan.decode, tuple):
        for sequence in plan.decode:
            if sequence not in pool or sequence in gone:
                raise InvalidPlanError(f"plan decodes {sequence}, which does not generate now")
        if len(set(plan.decode)) != len(plan.decode):
            raise InvalidPlanError("plan decodes one sequence twice in one step")
        return len(plan.decode), sum(pool.needs_block(s) for s in plan.decode)
    if not gone:
        return pool.size, pool.growth_blocks
    out = [sequence for sequence in gone if sequence in pool]
    growth = pool.growth_blocks - sum(pool.needs_block(sequence) for sequence in out)
    return pool.size - len(out), growth


def _prefill_needs(plan: Plan, view: EngineView, gone: frozenset[Sequence]) -> tuple[int, int]:
    """(tokens, blocks) of all chunks, each checked."""
    kv, tokens, blocks = view.kv, 0, 0
    for sequence, new in plan.prefill:
        if not isinstance(new, int):
            raise InvalidPlanError(
                f"plan gives {sequence} {new!r} prompt tokens, a {type(new).__name__}: "
                "must be a Python int"
            )
        computed = sequence.computed_tokens
        if sequence in view.prefilling and sequence not in gone:
            blocks += kv.blocks_for(computed + new) - sequence._blocks
        elif sequence in view.waiting:
            if not kv.finds_nothing(sequence):
                _check_alone(sequence, plan, view)
                computed = kv.cached_tokens(sequence)
            blocks += kv.blocks_to_admit(sequence, computed + new)
        else:
            raise InvalidPlanError(f"plan prefills {sequence}, which neither waits nor prefills")
        if not 1 <= new <= sequence.known_tokens - computed:
            raise InvalidPlanError(
                f"plan gives {sequence} {new} prompt tokens, it needs 1 to "
                f"{sequence.known_tokens - computed}"
            )
        tokens += new
    if len(plan.prefill) > 1 and len(dict(plan.prefill)) != len(plan.prefill):
        raise InvalidPlanError("plan gives one sequence two chunks in one step: merge them")
    return tokens, blocks


def _check_alone(sequence: Sequence, plan: Plan, view: EngineView) -> None:
    """What else a plan does may change what an admitted sequence finds in the prefix cache."""
    if len(plan.prefill) > 1 or plan.preempt or plan.decode_seqs(view.decoding.size):
        raise InvalidPlanError(
            f"plan admits {sequence} beside other work, which may change what it finds in the "
            "prefix cache: admit it alone, in a part of the step of its own (Plan.more), or turn "
            "prefix caching off"
        )


def _check_limits(tokens: int, blocks: int, free: int, token_limit: int | None) -> None:
    if token_limit is not None and tokens > token_limit:
        raise InvalidPlanError(f"plan has {tokens} tokens, max_num_batched_tokens is {token_limit}")
    if blocks > free:
        raise InvalidPlanError(
            f"plan needs {blocks} KV blocks, {free} are free: preempt somebody or take less"
        )
