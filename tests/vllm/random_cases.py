"""Seeded random scheduling cases, in the format of the recorded ones, without their steps.

Every case is a choice of one value for each of `CHOICES` and, drawn from its seed, the requests
that go with it. `covering` gives a small list of choices with every pair of values in it.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

CHOICES: dict[str, tuple[Any, ...]] = {
    "async_scheduling": (False, True),
    "enable_chunked_prefill": (True, False),
    "enable_prefix_caching": (True, False),
    "policy": ("fcfs", "priority"),
    "scheduler_reserve_full_isl": (True, False),
    "watermark": (0.0, 0.05, 0.2),
    "block_size": (1, 4, 16, 32),
    "cap": ("none", "small"),
    "memory": ("tight", "half", "loose"),
    "budget": ("seats", "small", "large"),
    "seats": ("few", "many"),
    "sharing": ("nothing", "groups", "turns", "same prompts", "all kinds"),
    "answers": ("one token", "short", "long"),
    "arrivals": ("at once", "bursts", "spread"),
    "fits": ("always", "not all"),
}
"""What is varied: vLLM's options under its names, and what the requests are like."""

AS_CHOSEN = (
    "async_scheduling",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "policy",
    "scheduler_reserve_full_isl",
    "watermark",
    "block_size",
)
MOST_STEPS = 400

Choice = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairs_of(choice: Choice) -> set[Pair]:
    """All pairs of values in one choice."""
    return set(combinations(((name, choice[name]) for name in CHOICES), 2))


def all_pairs() -> set[Pair]:
    """Every pair of values that vLLM accepts."""
    pairs = {
        ((one, a), (two, b))
        for one, two in combinations(CHOICES, 2)
        for a in CHOICES[one]
        for b in CHOICES[two]
    }
    return {pair for pair in pairs if accepted(dict(pair))}


def accepted(choice: Choice) -> bool:
    """Without chunked prefill, vLLM wants a budget of at least max_model_len."""
    whole = choice.get("enable_chunked_prefill") is False
    return not (whole and choice.get("budget", "large") != "large")


def any_choice(random: np.random.Generator) -> Choice:
    """One that vLLM accepts."""
    while True:
        choice = {name: pick(random, values) for name, values in CHOICES.items()}
        if accepted(choice):
            return choice


def covering(random: np.random.Generator, candidates: int = 60) -> list[Choice]:
    """Choices with every accepted pair in at least one of them: greedily, the best of many."""
    left, chosen = all_pairs(), []
    while left:
        wanted = dict(sorted(left, key=repr)[0])
        tried = (any_choice(random) | wanted for _ in range(candidates))
        usable = [choice for choice in tried if accepted(choice)]
        best = max(usable, key=lambda choice: len(pairs_of(choice) & left))
        left -= pairs_of(best)
        chosen.append(best)
    return chosen


def random_case(seed: int, choice: Choice | None = None, *, requests: int = 24) -> dict[str, Any]:
    """One case: `name`, `about`, `config` and at most `requests` requests."""
    random = np.random.default_rng(seed)
    choice = choice or any_choice(random)
    rows = some_requests(random, choice, int(random.integers(5, requests + 1)))
    longest = max(row["prompt_len"] + row["output_len"] for row in rows)
    seats = int(random.integers(2, 5) if choice["seats"] == "few" else random.integers(8, 33))
    budget = {
        "seats": seats,
        "small": seats + int(random.integers(1, 40)),
        "large": max(longest, seats) + int(random.integers(0, 200)),
    }[choice["budget"]]
    config = {name: choice[name] for name in AS_CHOSEN}
    config |= {
        "long_prefill_token_threshold": int(random.integers(1, 24))
        if choice["cap"] != "none"
        else 0,
        "max_num_seqs": seats,
        "max_num_batched_tokens": budget,
        "max_model_len": max(longest, 24),
        "num_gpu_blocks": 1 + some_blocks(random, choice, rows),
        "max_steps": MOST_STEPS,
    }
    if choice["enable_chunked_prefill"] is False:
        config["max_num_batched_tokens"] = max(budget, config["max_model_len"])
    if choice["fits"] == "not all":
        add_misfits(random, rows, config)
    about = ", ".join(f"{name} {value}" for name, value in choice.items())
    return {"name": f"random-{seed}", "about": about, "config": config, "requests": rows}


def some_blocks(random: np.random.Generator, choice: Choice, rows: list[dict[str, Any]]) -> int:
    """Usable blocks: the largest request just fits; half of all do; or all."""
    size = choice["block_size"]
    needs = [-(-(row["prompt_len"] + row["output_len"] - 1) // size) for row in rows]
    largest = max(needs)
    # Admission leaves the watermark free only while others run: the largest must fit beside it.
    tight = largest + int(random.integers(0, largest + 2))
    return {"tight": tight, "half": max(tight, sum(needs) // 2), "loose": sum(needs) + 8}[
        choice["memory"]
    ]


def add_misfits(random: np.random.Generator, rows: list[dict[str, Any]], config: Choice) -> None:
    """One or two requests never fit: their prompt does not, or their last tokens do not."""
    capacity = (config["num_gpu_blocks"] - 1) * config["block_size"]
    for row in random.choice(len(rows), size=min(len(rows), 2), replace=False).tolist():
        prompt = rows[row]["prompt_len"]
        if random.random() < 0.5:
            rows[row]["output_len"] = max(2, capacity - prompt + 2 + int(random.integers(0, 9)))
        else:
            rows[row]["prompt_len"] = max(prompt, capacity + 1 + int(random.integers(0, 9)))
    longest = max(row["prompt_len"] + row["output_len"] for row in rows)
    config["max_model_len"] = max(config["max_model_len"], longest)
    if not config["enable_chunked_prefill"]:
        config["max_num_batched_tokens"] = max(config["max_num_batched_tokens"], longest)


def some_requests(random: np.random.Generator, choice: Choice, count: int) -> list[dict[str, Any]]:
    """Requests in the order of the list; `arrival_step` need not grow with it."""
    steps = arrival_steps(random, choice["arrivals"], count)
    size, rows = choice["block_size"], []
    levels = int(random.integers(1, 6))
    heads = [int(random.integers(1, 4 * size + 8)) for _ in range(3)]
    for index in range(count):
        row: dict[str, Any] = {
            "id": f"r{index}",
            "arrival_step": steps[index],
            "prompt_len": int(random.integers(1, 4 * size + 12)),
            "output_len": answer(random, choice["answers"], size),
        }
        if choice["policy"] == "priority":
            row["priority"] = int(random.integers(0, levels)) - 1
        share(random, choice["sharing"], row, rows, heads=heads, size=size)
        rows.append(row)
    return rows


def arrival_steps(random: np.random.Generator, arrivals: str, count: int) -> list[int]:
    """In which schedule() call each is first seen."""
    if arrivals == "at once":
        return [int(random.integers(0, 2)) for _ in range(count)]
    if arrivals == "spread":
        return np.cumsum(random.integers(0, 6, count)).tolist()
    bursts = np.cumsum(random.integers(1, 60, count // 4 + 1))
    return sorted(int(pick(random, bursts)) for _ in range(count))


def answer(random: np.random.Generator, answers: str, size: int) -> int:
    """Tokens of one answer."""
    if answers == "one token" and random.random() < 0.6:
        return 1
    return int(random.integers(1, 3 * size + 12 if answers == "long" else size + 6))


def share(
    random: np.random.Generator,
    sharing: str,
    row: dict[str, Any],
    rows: list[dict[str, Any]],
    *,
    heads: list[int],
    size: int,
) -> None:
    """Let a request begin like others: a group's head, a whole prompt, an earlier conversation."""
    if sharing == "all kinds":
        sharing = pick(random, ("nothing", "groups", "turns", "same prompts"))
    group = int(random.integers(0, len(heads)))
    if sharing == "groups":
        around = heads[group] + int(random.integers(-2, 3))
        row["prefix"] = {"group": f"g{group}", "len": max(1, around)}
        if random.random() < 0.8:
            row["prompt_len"] = max(1, around) + int(random.integers(0, 2 * size + 2))
    elif sharing == "same prompts":
        row["prompt_len"] = heads[group]
        row["prefix"] = {"group": f"s{group}", "len": heads[group]}
    elif sharing == "turns" and rows and random.random() < 0.8:
        parent = rows[-1 - int(random.integers(0, min(len(rows), 4)))]
        row["continues"] = parent["id"]
        whole = parent["prompt_len"] + parent["output_len"]
        if whole < 9 * size + 40:
            kind = random.random()
            new = int(random.integers(0, size + 4))
            row["prompt_len"] = whole + new if kind < 0.7 else int(random.integers(1, whole + 1))
        if random.random() < 0.2:
            row["arrival_step"] = max(0, parent["arrival_step"] - int(random.integers(0, 9)))


def pick(random: np.random.Generator, values: Any) -> Any:  # Any: one of whatever is given
    """One of the values, each as likely."""
    return values[int(random.integers(0, len(values)))]
