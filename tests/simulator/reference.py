"""The four policies once more, as plainly as possible: lists, a walk over every sequence in every
step, every token written down. Slow, and sharing no code with the engine; the two must agree.
"""

from __future__ import annotations

from collections import Counter

from simulator import KVCache, StepShape, Trace
from tests.simulator.reference_job import NEVER, REQUEST_COLUMNS, Job, gaps_of

NO_LIMIT = 10**9


class Reference:
    """One run. `policy` is one of static, continuous, chunked, alternating."""

    def __init__(self, trace: Trace, cost_model, kv: KVCache, policy: str, **limits) -> None:
        self.cost_model, self.kv, self.policy = cost_model, kv, policy
        self.budget = limits.get("max_num_batched_tokens") or NO_LIMIT
        self.seats = limits["max_num_seqs"]
        self.chunk = limits.get("chunk_size") or NO_LIMIT
        self.pad = limits.get("pad_prompts", False)
        columns = (trace.arrival_ns, trace.prompt_tokens, trace.output_tokens)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.jobs = [Job(row, a, p, n, known=p) for row, (a, p, n) in enumerate(rows)]
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.steps: list[dict[str, int]] = []
        self.evictions: list[list[int]] = []
        self.now, self.taken, self.evicted, self.preempted = 0, 0, [], 0
        self.after_prompts = False

    def run(self) -> Reference:
        coming = [job for job in self.jobs if not self.rejects(job)]
        while coming or self.waiting or self.running:
            while coming and coming[0].arrival <= self.now:
                self.waiting.append(coming.pop(0))
            self.taken, self.evicted = 0, []
            decodes, chunks = self.choose()
            if decodes or chunks:
                self.execute(decodes, chunks)
            elif not self.evicted:
                self.now = coming[0].arrival
        self.now = max(self.now, *(job.arrival for job in self.jobs if self.rejects(job)), 0)
        return self

    def rejects(self, job: Job) -> bool:
        return self.blocks(job.prompt + job.output - 1) > self.kv.blocks

    def blocks(self, tokens: int) -> int:
        return (tokens + self.kv.block_size - 1) // self.kv.block_size

    @property
    def free(self) -> int:
        """Blocks neither held nor taken by what this step has been given so far."""
        return self.kv.blocks - sum(self.blocks(job.stored) for job in self.running) - self.taken

    def choose(self) -> tuple[list[Job], list[tuple[Job, int]]]:
        """Who decodes and which chunks are computed in the next step."""
        if self.policy == "static":
            return (self.serve(NO_LIMIT), []) if self.running else ([], self.admit(NO_LIMIT))
        if self.policy == "continuous":
            chunks = self.admit(self.budget)
            return ([], chunks) if chunks else (self.serve(NO_LIMIT), [])
        if self.policy == "alternating":
            if not self.after_prompts or not any(job.decodes for job in self.running):
                chunks = self.prompts(self.budget)
                if chunks or self.evicted:
                    return [], chunks
            return self.serve(self.budget), []
        decodes = self.serve(self.budget)
        return decodes, self.prompts(self.budget - len(decodes))

    def serve(self, budget: int) -> list[Job]:
        """In order of admission; without a free block the newest sequence is thrown out."""
        served: list[Job] = []
        for job in list(self.running):
            if not job.decodes or job not in self.running or len(served) == budget:
                continue
            need = self.blocks(job.stored + 1) - self.blocks(job.stored)
            while need > self.free:
                victim = [other for other in self.running if not other.done][-1]
                self.evict(victim)
                if victim is job:
                    return served
            self.taken += need
            served.append(job)
        return served

    def prompts(self, budget: int) -> list[tuple[Job, int]]:
        """Half-done prompts go on, oldest first; what is left admits new ones."""
        chunks: list[tuple[Job, int]] = []
        standing = [job for job in self.running if job.prefills]
        while standing and budget:
            job = standing.pop(0)
            new = min(job.known - job.stored, budget, self.chunk)
            need = self.blocks(job.stored + new) - self.blocks(job.stored)
            if need > self.free + sum(self.blocks(other.stored) for other in standing):
                continue
            while need > self.free:
                self.evict(standing.pop())
            self.taken += need
            budget -= new
            chunks.append((job, new))
        return chunks if self.evicted else chunks + self.admit(budget, chunks)

    def admit(self, budget: int, chunks=()) -> list[tuple[Job, int]]:
        """The queue in order, while each has a seat, tokens, and blocks for all that is known."""
        given, admitted = dict(chunks), []
        whole = self.policy in ("static", "continuous")
        reserved = sum(
            self.blocks(job.known) - self.blocks(job.stored + given.get(job, 0))
            for job in self.running
            if job.prefills
        )
        for job in self.waiting:
            watermark = self.kv.watermark_blocks if self.running or admitted else 0
            fits = self.blocks(job.known) + reserved <= self.free - watermark
            if len(self.running) + len(admitted) >= self.seats or budget <= 0 or not fits:
                break
            if whole and admitted and job.known > budget:
                break
            new = job.known if whole else min(job.known, budget, self.chunk)
            reserved += self.blocks(job.known)
            budget -= new
            admitted.append((job, new))
        return admitted

    def evict(self, victim: Job) -> None:
        self.running.remove(victim)
        self.waiting.insert(0, victim)
        self.evicted.append(victim)
        self.preempted += 1
        eviction = [victim.row, self.now, NEVER, victim.stored]
        victim.evictions.append(eviction)
        self.evictions.append(eviction)
        victim.stored, victim.known = 0, victim.prompt + len(victim.times)
        self.close_batch()

    def execute(self, decodes: list[Job], chunks: list[tuple[Job, int]]) -> None:
        for job, _ in chunks:
            if job in self.waiting:
                self.waiting.remove(job)
                self.running.append(job)
                if job.evictions:
                    job.evictions[-1][2] = self.now
        slots = [job for job in self.running if job.done]
        longest = max((new for _, new in chunks), default=0)
        asks_longest = self.cost_model.needs_longest_context and decodes
        contexts = [job.stored + job.padding for job in (*decodes, *slots)] if decodes else []
        shape = StepShape(
            tuple((longest if self.pad else new, job.stored) for job, new in chunks),
            len(contexts),
            sum(contexts),
            max(contexts) if asks_longest else 0,
        )
        start, duration = self.now, self.cost_model.step_ns(shape)
        self.now += duration
        for job, new in [*((job, 1) for job in decodes), *chunks]:
            job.starts.append(start)
            job.active += duration
            if job.prefills:
                first = max(0, min(job.prompt, job.stored + new) - max(job.stored, job.reached))
                job.reached = max(job.reached, min(job.prompt, job.stored + new))
                job.first_time += first
                job.again += new - first
            job.stored += new
            if job.stored >= job.known:
                job.times.append(self.now)
        if decodes:
            for job in slots:
                job.padding += 1
        self.taken = 0
        self.log(shape, decodes, chunks, duration)
        self.preempted = 0
        self.after_prompts = bool(chunks)
        for job in list(self.running):
            if job.done and job.finish == NEVER:
                job.finish = self.now
                if self.policy != "static":
                    self.running.remove(job)
        self.close_batch()

    def close_batch(self) -> None:
        """A static batch is over when its last member is done."""
        if all(job.done for job in self.running):
            self.running.clear()

    def log(self, shape, decodes, chunks, duration) -> None:
        self.steps.append(
            {
                "end_ns": self.now,
                "duration_ns": duration,
                "prefill_tokens": sum(new for _, new in chunks),
                "prefill_seqs": len(chunks),
                "decode_seqs": len(decodes),
                "padded_seqs": shape.decode_seqs - len(decodes),
                "context_tokens": shape.decode_context_tokens,
                "running": len(self.running),
                "used_blocks": self.kv.blocks - self.free,
                "preempted": self.preempted,
                "emitted_tokens": sum(job.times[-1:] == [self.now] for job in self.running),
            }
        )

    def facts(self) -> dict[str, object]:
        """What happened, under the names of `facts.facts`."""
        log: dict[str, object] = {"end_ns": self.now}
        for name, value_of in REQUEST_COLUMNS.items():
            log[f"requests.{name}"] = [value_of(job) for job in self.jobs]
        rejected = [self.rejects(job) for job in self.jobs]
        log["requests.state"] = [int(turned_away) for turned_away in rejected]
        log["requests.reason"] = ["exceeds_kv_capacity" if no else None for no in rejected]
        for name in self.steps[0] if self.steps else ():
            log[f"steps.{name}"] = [step[name] for step in self.steps]
        gaps = Counter(gap for job in self.jobs for gap in gaps_of(job))
        log["gaps.gap_ns"] = sorted(gaps)
        log["gaps.count"] = [gaps[gap] for gap in sorted(gaps)]
        for place, name in enumerate(("row", "preempt_ns", "resume_ns", "lost_tokens")):
            log[f"evictions.{name}"] = [eviction[place] for eviction in self.evictions]
        log["token_times_ns"] = [job.times for job in self.jobs]
        return log
