"""A scheduler of your own: among waiting requests the shortest prompt goes first.

    runway simulate --workload bundled --scheduler shortest_prompt_first.py:ShortestPromptFirst

Short prompts gain, long ones may wait for long. Run as a program, this file compares it with
`chunked` on the bundled workload.
"""

# ruff: noqa: T201 - a program that prints

from simulator import EngineView, Plan
from simulator.schedulers.room import UNLIMITED, Room, continue_prompts, serve_decodes


class ShortestPromptFirst:
    """Everybody decodes; what is left of the token budget goes to one prompt at a time."""

    name = "shortest-prompt-first"

    def __init__(self, max_num_batched_tokens: int = 2048, max_num_seqs: int = 128) -> None:
        self.step_token_limit = max_num_batched_tokens
        self.max_num_seqs = max_num_seqs

    def plan(self, view: EngineView) -> Plan:
        """Decodes, then the prompt under way; when there is none, admit the shortest."""
        seats = self.max_num_seqs - len(view.running)
        room = Room(self.step_token_limit, view.kv.free_blocks, seats)
        decode = serve_decodes(view, room)
        chunks = continue_prompts(view, room, UNLIMITED)
        if view.waiting and not view.prefilling and room.seats > 0 and not room.evicted:
            shortest = min(view.waiting, key=lambda sequence: sequence.remaining_tokens)
            new_tokens = min(shortest.remaining_tokens, room.tokens)
            if new_tokens and view.kv.blocks_for(shortest.remaining_tokens) <= room.blocks:
                chunks = ((shortest, new_tokens),)
        return Plan(decode, chunks, tuple(room.evicted))


def main() -> None:
    """Compare with `chunked`."""
    from experiments.config import RunConfig
    from experiments.run import run_config

    print(f"{'scheduler':22} {'TTFT p50':>10} {'TTFT p99':>10} {'TPOT p99':>10}  (ms)")
    for scheduler in ("chunked", f"{__file__}:ShortestPromptFirst"):
        summary = run_config(RunConfig(workload="bundled", scheduler=scheduler)).summary
        ttft, tpot = summary["ttft_ms"], summary["tpot_ms"]
        name = summary["provenance"]["scheduler"]["name"]
        print(f"{name:22} {ttft['p50']:10.1f} {ttft['p99']:10.1f} {tpot['p99']:10.1f}")


if __name__ == "__main__":
    main()
