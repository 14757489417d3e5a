"""A toy engine that writes the log of a small load: whole truth beside what the log tells."""

from typing import NamedTuple

import numpy as np


class Served(NamedTuple):
    """Steps as `log_of` wants them, and the truth that a log leaves out, per step."""

    steps: list
    pairs: list
    longest: list


def serve(prompts, outputs, budget, max_seqs):
    """First come, first served, chunked prefill under a token budget shared with the decodes."""
    waiting = list(zip(prompts, outputs, strict=True))
    done, decoding = 0, []
    served = Served([], [], [])
    while waiting or decoding:
        room, chunks, finished, pairs = budget - len(decoding), [], [], 0.0
        while waiting and room and len(decoding) + len(chunks) < max_seqs:
            whole, output = waiting[0]
            new = min(room, whole - done)
            chunks.append((whole, done, new))
            pairs += new * (done + new / 2)
            room -= new
            done += new
            if done == whole:
                finished.append([whole, output - 1])
                waiting.pop(0)
                done = 0
        contexts = [context for context, _ in decoding]
        served.steps.append((chunks, contexts))
        served.pairs.append(pairs)
        served.longest.append(max(contexts, default=0))
        decoding = [[context + 1, left - 1] for context, left in decoding if left > 1]
        decoding += [request for request in finished if request[1] > 0]
    return served


def random_load(seed, requests=60):
    """Prompt and output lengths."""
    random = np.random.default_rng(seed)
    return random.integers(1, 900, requests).tolist(), random.integers(1, 300, requests).tolist()
