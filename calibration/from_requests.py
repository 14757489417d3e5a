"""`python -m calibration.from_requests LOG … -o TABLE`: a cost table from request times alone."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from costmodels.model_config import ModelConfig, bundled_models, find_model
from costmodels.table import KVCapacity, save_table
from simulator.errors import ConfigError, RunwayError
from simulator.output import check_output

from .from_steps import RefusingParser
from .request_table import table_from_requests
from .request_times import read_request_times
from .served import Serving
from .step_table import Setting

NOT_STATED = "not stated"
ROOMY_BLOCKS = 1 << 20
"""KV blocks if none are given: the cache is then never full."""
STATED = (
    ("device", "the GPU, by a name of Runway (h100-sxm …) or its vendor's"),
    ("dtype", "of weights and KV cache"),
    ("model", "a config.json, the name of a bundled model, or its name on the hub"),
    ("engine", "serving engine and version"),
    ("source", "where the logs come from"),
    ("licence", "of the logs"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, or 2 with one message for bad input."""
    try:
        given = _parser().parse_args(arguments)
        check_output(given.output)
        planned = given.max_concurrency is not None
        logs = [read_request_times(path, planned=planned) for path in given.logs]
        made = table_from_requests(
            logs,
            _serving(given),
            _setting(given),
            command=_command(given),
            model=_model(given.model),
            attention_tokens_per_pair=given.attention_tokens_per_pair,
        )
        save_table(made.table, given.output)
    except RunwayError as error:
        sys.stderr.write(f"calibration.from_requests: {error}\n")
        return 2
    sys.stdout.write(f"{given.output}: {made.table.summary}\n")
    for line in made.told:
        sys.stdout.write(f"! {line}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = RefusingParser(
        prog="python -m calibration.from_requests",
        description="Fit step prices to request times, by simulating the requests again. Several "
        "logs at different rates tell more; the last one is then held out.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "logs", type=Path, nargs="+", help="JSON lines or CSV (.gz too): send_s, prompt_tokens, …"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="cost table to write")
    engine = parser.add_argument_group("engine (as it was when the logs were made)")
    engine.add_argument("--max-num-batched-tokens", type=int, default=2048, help="token budget")
    engine.add_argument("--max-num-seqs", type=int, default=128, help="sequences in a step")
    engine.add_argument("--kv-blocks", type=int, help="usable KV blocks; a cache never full if not")
    engine.add_argument("--block-size", type=int, default=16, help="tokens per KV block")
    switch = argparse.BooleanOptionalAction
    engine.add_argument("--async-scheduling", action=switch, default=True, help="plan a step ahead")
    engine.add_argument(
        "--enable-prefix-caching", action=switch, default=True, help="reuse KV blocks"
    )
    engine.add_argument("--max-concurrency", type=int, help="requests the client keeps in flight")
    engine.add_argument("--max-model-len", type=int, help="longest prompt plus output")
    engine.add_argument("--tensor-parallel", type=int, default=1, help="GPUs per engine")
    engine.add_argument(
        "--attention-tokens-per-pair",
        type=float,
        help="attention FLOPs of a token pair / matrix FLOPs of a token; a known model says it",
    )
    said = parser.add_argument_group("provenance")
    said.add_argument("--name", help="of the table; the output's if not given")
    said.add_argument("--description", help="one line for `runway list cost-models`")
    for name, meaning in STATED:
        said.add_argument(f"--{name}", default=NOT_STATED, help=meaning)
    said.add_argument("--date", help="of the measurement, YYYY-MM-DD; the log's file date if not")
    said.add_argument("--software", action="append", default=[], metavar="PACKAGE=VERSION")
    said.add_argument("--note", help="anything a user should know")
    return parser


def _serving(given: argparse.Namespace) -> Serving:
    return Serving(
        max_num_batched_tokens=given.max_num_batched_tokens,
        max_num_seqs=given.max_num_seqs,
        kv_blocks=ROOMY_BLOCKS if given.kv_blocks is None else given.kv_blocks,
        block_size=given.block_size,
        async_scheduling=given.async_scheduling,
        enable_prefix_caching=given.enable_prefix_caching,
        max_concurrency=given.max_concurrency,
    )


def _model(name: str) -> ModelConfig | None:
    """A model whose sizes are known, or None for a mere name."""
    known = name in bundled_models() or name.endswith(".json") or Path(name).is_dir()
    return find_model(name) if known else None


def _setting(given: argparse.Namespace) -> Setting:
    software = {}
    for pair in given.software:
        package, equals, version = pair.partition("=")
        if not (package and equals and version):
            raise ConfigError(f"--software is {pair!r}: must be PACKAGE=VERSION")
        software[package] = version
    names = " and ".join(log.name for log in given.logs)
    kv = None
    if given.kv_blocks is not None:
        kv = KVCapacity(given.kv_blocks, given.block_size, "given with the logs")
    return Setting(
        **{name: getattr(given, name) for name, _ in STATED},
        name=given.name or given.output.name.partition(".")[0],
        description=given.description or f"fitted to the request times of {names}",
        date=given.date or _date(given.logs[-1]),
        software=software or {"engine": given.engine},
        tensor_parallel=given.tensor_parallel,
        kv=kv,
        max_model_len=given.max_model_len,
        note=given.note,
    )


def _date(log: Path) -> str:
    """When the file was last changed, in UTC."""
    changed = datetime.datetime.fromtimestamp(log.stat().st_mtime, datetime.UTC)
    return changed.date().isoformat()


SAID = ("name", "description", "date", "note", "software", *(name for name, _ in STATED))
"""What is elsewhere in the table, and so not in its command; device and model excepted."""


def _command(given: argparse.Namespace) -> str:
    """The command that makes the same fit again."""
    words = ["python", "-m", "calibration.from_requests", *(log.name for log in given.logs)]
    for name, value in vars(given).items():
        flag = "--" + name.replace("_", "-")
        if name in ("logs", "output") or value is None or value == NOT_STATED:
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif name not in SAID or name in ("device", "model"):
            words += [flag, str(value)]
    return f"{shlex.join(words)} -o TABLE …"


if __name__ == "__main__":
    sys.exit(main())
