"""Record random cases with vLLM's own scheduler, one case a line.

    python -m tests.vllm.record HARNESS.py OUT.jsonl.gz --pairs
    python -m tests.vllm.record HARNESS.py OUT.jsonl.gz --seeds 0 3000
    python -m tests.vllm.record HARNESS.py OUT.jsonl.gz --again CASES...

To be run where vLLM is installed. HARNESS.py drives its scheduler: it defines `run(case)`, which
returns (config in force, steps). `--pairs`: few cases, every pair of options in at least one.
`--seeds`: random cases with these seeds. `--again`: known cases once more, after an upgrade.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.vllm.cases import case_files, read_cases
from tests.vllm.random_cases import covering, random_case

Case = dict[str, Any]

SEEDS_TRIED = 8


def harness(path: Path) -> Callable[[Case], tuple[Case, list[Case]]]:
    """The `run` of a harness file."""
    spec = importlib.util.spec_from_file_location("harness", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run


def pair_cases(run: Callable[[Case], tuple[Case, list[Case]]]) -> Iterator[Case]:
    """A case for each choice of two covering sets: of some seeds the one in which most happens."""
    choices = [choice for seed in (33, 34) for choice in covering(np.random.default_rng(seed))]
    for number, choice in enumerate(choices):
        tried = []
        for seed in range(SEEDS_TRIED):
            case = random_case(1000 * (number + 1) + seed, choice, requests=20)
            case |= {"name": f"pairs-{number:02}", "choice": choice}
            case["config"]["max_steps"] = 240
            tried.append((happens(run(case)[1]), -seed, case))
        yield max(tried, key=lambda entry: entry[:2])[2]


def happens(steps: list[Case]) -> int:
    """How much of a case is worth checking: preemptions, prefix hits, finishes."""
    return sum(
        min(20, sum(len(step[field]) for step in steps))
        for field in ("preempted", "cached", "finished")
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", type=Path)
    parser.add_argument("out", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--pairs", action="store_true")
    what.add_argument("--seeds", type=int, nargs=2, metavar=("FIRST", "END"))
    what.add_argument("--again", nargs="+", metavar="CASES")
    options = parser.parse_args()
    run = harness(options.harness)
    cases: Iterator[Case]
    if options.pairs:
        cases = pair_cases(run)
    elif options.seeds:
        cases = (random_case(seed) for seed in range(*options.seeds))
    else:
        cases = (case for path in case_files(options.again) for case in read_cases(path))
    version = importlib.metadata.version("vllm")
    with gzip.GzipFile(options.out, "wb", mtime=0) as out:
        for case in cases:
            config, steps = run({key: case[key] for key in case if key != "steps"})
            whole = {**case, "vllm_version": version, "config": config, "steps": steps}
            out.write(json.dumps(whole, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
