"""Replay recorded cases of vLLM's own scheduler and compare every step.

    python -m tests.vllm_golden FILE...        case files, directories or globs

Case files are `.json` (one case) or `.jsonl` (one a line), as they are or gzipped.
Prints `<cases> cases, <steps> steps, <n> differences`, the first difference of each case, and
exits 1 on any. `--slow-path` walks every sequence in every step instead of using the aggregates.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import simpy

from simulator.decode_launch import Flight
from simulator.engine import Engine
from simulator.feed import SequenceMaker
from simulator.kv_cache import KVCache
from simulator.options import EngineOptions
from simulator.plan import StepShape
from simulator.prefix_cache import PrefixCache
from simulator.schedulers.vllm import VllmScheduler
from simulator.sequence import Sequence
from simulator.trace import Trace
from tests.vllm.cases import case_files, read_cases

STEP_NS = 1000


class OneStep:
    """Every step takes the same time: only the order of things matters here."""

    needs_longest_context = False

    def step_ns(self, shape: StepShape) -> int:
        return STEP_NS

    def leap_ns(self, shape: StepShape, steps: int) -> Any:
        return np.full(steps, STEP_NS, dtype=np.int64)


class Clock:
    """The engine's clock, set by the replay instead of by SimPy."""

    def __init__(self) -> None:
        self.now = 0

    def timeout(self, delay: int) -> simpy.Event:
        raise AssertionError("a replay drives the engine itself")


class NoFeed:
    """The replay hands arrivals to the engine itself."""

    next_ns = None

    def __init__(self) -> None:
        self.scheduled_ns: dict[int, int] = {}

    def pull(self, now_ns: int) -> list[Sequence]:
        return []

    def ended(self, row: int, now_ns: int) -> None:
        pass


class Replay:
    """One case, driven call by call in the order of vLLM's engine core."""

    def __init__(self, case: dict[str, Any], *, slow_path: bool) -> None:
        self.case, config = case, case["config"]
        self.depth = 2 if config.get("async_scheduling") else 1
        requests = case["requests"]
        self.ids = [request["id"] for request in requests]
        self.todo = deque(
            sorted(range(len(requests)), key=lambda i: (requests[i]["arrival_step"], i))
        )
        self.trace = Trace(
            arrival_ns=np.zeros(len(requests), np.int64),
            prompt_tokens=np.array([r["prompt_len"] for r in requests], np.int64),
            output_tokens=np.array([r["output_len"] for r in requests], np.int64),
            ids=tuple(self.ids),
            priority=np.array([r.get("priority", 0) for r in requests], np.int64),
            parent=tuple(r.get("continues") for r in requests),
            prefix_group=tuple(r.get("prefix", {}).get("group") for r in requests),
            prefix_tokens=np.array([r.get("prefix", {}).get("len", 0) for r in requests], np.int64),
        )
        self.make = SequenceMaker(self.trace)
        scheduler = VllmScheduler(
            config["max_num_batched_tokens"],
            config["max_num_seqs"],
            long_prefill_token_threshold=config["long_prefill_token_threshold"],
            enable_chunked_prefill=config["enable_chunked_prefill"],
            scheduler_reserve_full_isl=config["scheduler_reserve_full_isl"],
            policy=config["policy"],
        )
        self.clock = Clock()
        kv = kv_cache(case).prepared(self.trace, self.depth - 1)
        kv.watermark_blocks = int(config["watermark"] * config["num_gpu_blocks"])
        self.engine = Engine(
            self.clock,
            NoFeed(),
            scheduler,
            OneStep(),
            kv,
            options=EngineOptions(leap=False, slow_path=slow_path, pipeline_depth=self.depth),
        )
        self.steps: list[dict[str, Any]] = []
        self.pipe: deque[tuple[Flight, dict[str, Any]]] = deque()
        self.emitting: deque[list[Sequence]] = deque()
        self.calls = 0
        self.unreported = False

    def run(self) -> list[dict[str, Any]]:
        """All schedule() calls, as the recording has them."""
        pipe, limit = self.pipe, self.case["config"]["max_steps"]
        while len(self.steps) < limit and (
            self._unfinished() or self.unreported or pipe or self.todo
        ):
            if self.depth == 2 and not (self._unfinished() or self.unreported or pipe):
                due = self.case["requests"][self.todo[0]]["arrival_step"]
                self.calls = max(self.calls, due)
            arrived = self._arrivals()
            if self._unfinished() or self.unreported or self.depth == 1:
                flight, step = self._call(arrived)
                pipe.append((flight, step))
                if len(pipe) < self.depth and (step["scheduled"] or self._unfinished()):
                    stalled = self._stalled(step)
                    if stalled is None:
                        continue
                    step["stalled"] = stalled
                    break
                stalled = self._stalled(step)
                self._deliver(*pipe.popleft())
                if stalled is not None:
                    step["stalled"] = stalled
                    break
                continue
            self._deliver(*pipe.popleft())
        else:
            live = self._live()
            if len(self.steps) >= limit:
                self.steps[-1]["max_steps_reached"] = live
        return self.steps

    def _unfinished(self) -> bool:
        return bool(self.engine.view.waiting or self.engine.view.running)

    def _live(self) -> list[str]:
        view = self.engine.view
        return sorted(self.ids[s.row] for s in (*view.running, *view.waiting))

    def _arrivals(self) -> list[str]:
        arrived = []
        while self.todo:
            row = self.todo[0]
            due = self.case["requests"][row]["arrival_step"]
            if due > self.calls:
                break
            self.todo.popleft()
            # In order of step, then of the list: ties of priority are broken by it.
            self.engine.view.waiting.add(self.make(row, due * len(self.ids) + row))
            arrived.append(self.ids[row])
        return arrived

    def _call(self, arrived: list[str]) -> tuple[Flight, dict[str, Any]]:
        """One schedule() call: launch what it plans, and write down what it decided."""
        engine, view, columns = self.engine, self.engine.view, self.engine.life.requests
        before = {sequence: self._computed(sequence) for sequence in view.running}
        decoding = set(engine.pool)
        evicted = len(columns.evicted_row)
        self.unreported = False
        flight = engine.launcher.launch(self.clock.now)
        chunks = dict(view.previous.prefill) if flight else {}
        tokens = {s: self._computed(s) - done for s, done in before.items() if s in view.running}
        tokens = {s: new for s, new in tokens.items() if new}
        admitted = [s for s in chunks if s not in before]
        tokens |= {s: chunks[s] for s in admitted}
        flight = flight or (0, 0, [])
        completed = chunks.keys() - view.prefilling.keys()
        self.emitting.append([s for s in tokens if s in decoding or s in completed])
        cached = {s: self._computed(s) - chunks[s] for s in admitted}
        step = {
            "step": self.calls,
            "arrived": arrived,
            "scheduled": self._named(tokens),
            "admitted": [self.ids[s.row] for s in admitted],
            "cached": self._named({s: hit for s, hit in cached.items() if hit}),
            "preempted": [self.ids[row] for row in columns.evicted_row[evicted:]],
            "running": [self.ids[s.row] for s in view.running],
            "waiting": [self.ids[s.row] for s in view.waiting],
            "computed": self._named({s: self._computed(s) for s in view.running}),
            "free_blocks": view.kv.free_blocks,
            "emitted": [],
            "finished": [],
            "free_blocks_end": None,
        }
        if self.depth == 2:
            step["processed_after_schedule"] = None
        self.calls += 1
        self.steps.append(step)
        return flight, step

    def _deliver(self, flight: Flight, step: dict[str, Any]) -> None:
        """The oldest step in the pipe ended: its tokens and finishes."""
        engine = self.engine
        _, end_ns, ending = flight
        self.clock.now = max(self.clock.now, end_ns)
        engine.life.deliver(ending, end_ns)
        emitted = self.emitting.popleft()
        finishing = set(ending)
        step["emitted"] = [self.ids[s.row] for s in emitted]
        step["finished"] = [self.ids[s.row] for s in emitted if s in finishing]
        step["free_blocks_end"] = engine.view.kv.free_blocks
        if self.depth == 2:
            step["processed_after_schedule"] = self.calls - 1
        self.unreported |= self.depth == 2 and bool(ending)

    def _computed(self, sequence: Sequence) -> int:
        pool = self.engine.pool
        return pool.context_of(sequence) if sequence in pool else sequence.computed_tokens

    def _named(self, values: dict[Sequence, int]) -> dict[str, int]:
        return {self.ids[sequence.row]: value for sequence, value in values.items()}

    def _stalled(self, step: dict[str, Any]) -> list[str] | None:
        """Who can never run: nothing planned, nothing in flight, nothing to come."""
        if self.depth == 1 and len(self.steps) == self.case["config"]["max_steps"]:
            return None  # a recording says so only when a second empty step has shown it
        live = self._live()
        moves = step["scheduled"] or step["preempted"] or self.todo
        flying = any(end_ns for (_, end_ns, _), _ in self.pipe)
        return None if moves or flying or not live else live


def kv_cache(case: dict[str, Any]) -> KVCache:
    """vLLM's `num_gpu_blocks` counts one null block; its watermark is a share of all of them."""
    config = case["config"]
    blocks = config["num_gpu_blocks"]
    kind = PrefixCache if config["enable_prefix_caching"] else KVCache
    return kind(blocks - 1, config["block_size"])


def differences(case: dict[str, Any], steps: list[dict[str, Any]]) -> Iterator[str]:
    """Every field of every step that is not as recorded."""
    for number, (wanted, got) in enumerate(zip(case["steps"], steps, strict=False)):
        for field in sorted(wanted.keys() | got.keys()):
            want, have = wanted.get(field), got.get(field)
            if want != have or (isinstance(want, dict) and list(want) != list(have)):
                yield f"step {number}: {field} is {have}, recorded {want}"
    if len(steps) != len(case["steps"]):
        yield f"{len(steps)} steps, recorded {len(case['steps'])}"


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.vllm_golden", description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--slow-path", action="store_true")
    options = parser.parse_args(arguments)
    cases = steps = wrong = 0
    recorded = ((path, case) for path in case_files(options.files) for case in read_cases(path))
    for path, case in recorded:
        found = list(differences(case, Replay(case, slow_path=options.slow_path).run()))
        cases, steps, wrong = cases + 1, steps + len(case["steps"]), wrong + len(found)
        if found:
            name = path.name if ".jsonl" not in path.name else f"{path.name}: {case['name']}"
            print(f"{name}: {len(found)} differences; first: {found[0]}")  # noqa: T201
    print(f"{cases} cases, {steps} steps, {wrong} differences")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
