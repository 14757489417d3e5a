"""`python -m calibration.from_steps LOG -o TABLE`: a cost table from a log of real engine steps."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from costmodels.hardware import GPUS
from costmodels.model_config import bundled_models, find_model
from costmodels.table import NOT_STATED, KVCapacity, save_table
from simulator.errors import ConfigError, RunwayError
from simulator.output import check_output

from .fit import FitOptions
from .step_log import read_step_log
from .step_table import Setting, StepsKind, table_from_steps
from .steps_physics import VLLM_BATCH_SIZES, VLLM_CAPTURED_TOKENS, AttentionSizes, physics_of

STATED = (
    *(
        (
            "name",
            "what `runway simulate --cost-model` will call it; the output's name unless given",
        ),
    ),
    *(("description", "one line for `runway list cost-models`"),),
    *(("device", "the GPU, as its vendor names it; a known one bounds its terms"),),
    *(("dtype", "of weights and KV cache"),),
    *(("model", "its name on the Hugging Face hub; a bundled one ties its terms"),),
    *(("engine", "serving engine and version"),),
    *(("date", "of the measurement, YYYY-MM-DD"),),
    *(("source", "where the log comes from; its file name unless given"),),
    *(("licence", "of the log"),),
)
KINDS = ("steps", "linear")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, or 2 with one message for bad input."""
    try:
        given = _parser().parse_args(arguments)
        check_output(given.output)
        options = FitOptions(
            segment=given.segment,
            test_segment=given.test_segment,
            held_out_share=given.held_out,
            seed=given.seed,
            attention_tokens_per_pair=given.attention_tokens_per_pair,
            drop_over_ms=given.drop_over_ms,
            drop_factor=given.drop_factor,
        )
        log = read_step_log(given.log)
        kind = None if given.kind == "linear" else _kind(given)
        command = _command(given, options)
        table = table_from_steps(log, options, _setting(given), command=command, kind=kind)
        save_table(table, given.output)
    except RunwayError as error:
        sys.stderr.write(f"calibration.from_steps: {error}\n")
        return 2
    sys.stdout.write(f"{given.output}: {table.summary}\n")
    for note in str(table.provenance.get("note", "")).split("; "):
        if note:
            sys.stdout.write(f"! {note}\n")
    return 0


class RefusingParser(argparse.ArgumentParser):
    """Raises ConfigError for bad arguments, where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _parser() -> argparse.ArgumentParser:
    parser = RefusingParser(
        prog="python -m calibration.from_steps",
        description="Fit step prices to a log of real engine steps.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("log", type=Path, help="step log, CSV or CSV.gz")
    parser.add_argument("-o", "--output", type=Path, required=True, help="cost table to write")
    fit = parser.add_argument_group("fit")
    fit.add_argument("--kind", choices=KINDS, default="steps", help="of cost model")
    fit.add_argument("--segment", default="", help="part of the log to fit; all, unless given")
    fit.add_argument("--test-segment", help="part of the log to extrapolate to")
    fit.add_argument("--held-out", type=float, default=0.15, help="share the fit never sees")
    fit.add_argument("--seed", type=int, default=0, help="chooses the held-out steps")
    fit.add_argument(
        "--attention-tokens-per-pair",
        type=float,
        help="attention FLOPs of a token pair / matrix FLOPs of a token "
        "(costmodels.ModelConfig.attention_tokens_per_pair); ties the two prefill terms",
    )
    fit.add_argument("--model-config", help="config.json of the model, if its name is not bundled")
    fit.add_argument("--captured-tokens", type=int, help="tokens of the largest CUDA graph")
    fit.add_argument(
        "--launch-on-step-before",
        action="store_true",
        help="the launch of a step with prompts is booked on the step before it (engine and worker "
        "in one process, as vLLM on one GPU): judge the two together",
    )
    fit.add_argument("--drop-over-ms", type=float, help="drop one-off steps longer than this, ms")
    fit.add_argument(
        "--drop-factor", type=float, default=3.0, help="drop steps this far off a first fit"
    )
    setting = parser.add_argument_group("setting (goes into the table's provenance)")
    for name, meaning in STATED:
        setting.add_argument(f"--{name}", help=meaning)
    setting.add_argument(
        *("--software",), action="append", default=[], metavar="PACKAGE=VERSION", help="again"
    )
    setting.add_argument("--tensor-parallel", type=int, default=1, help="GPUs per engine")
    setting.add_argument("--kv-blocks", type=int, help="KV cache of the engine, blocks")
    setting.add_argument("--block-size", type=int, default=16, help="tokens per KV block")
    setting.add_argument("--kv-origin", default="from the engine's log", help="of --kv-blocks")
    setting.add_argument("--max-model-len", type=int, help="of the engine, tokens")
    setting.add_argument("--max-num-batched-tokens", type=int, help="of the engine, tokens")
    setting.add_argument("--note", help="anything a user should know")
    return parser


def _setting(given: argparse.Namespace) -> Setting:
    software = {}
    for pair in given.software:
        package, equals, version = pair.partition("=")
        if not (package and equals and version):
            raise ConfigError(f"--software is {pair!r}: must be PACKAGE=VERSION")
        software[package] = version
    stated = {name: getattr(given, name) for name, _ in STATED}
    defaults = {
        "name": given.output.name.partition(".")[0],
        "description": f"fitted to {given.log.name}",
        "source": given.log.name,
    }
    kv = None
    if given.kv_blocks is not None:
        kv = KVCapacity(given.kv_blocks, given.block_size, given.kv_origin)
    return Setting(
        **{
            name: defaults.get(name, NOT_STATED) if value is None else value
            for name, value in stated.items()
        },
        software=software or {"engine": NOT_STATED},
        tensor_parallel=given.tensor_parallel,
        kv=kv,
        max_model_len=given.max_model_len,
        max_num_batched_tokens=given.max_num_batched_tokens,
        note=given.note,
    )


def _kind(given: argparse.Namespace) -> StepsKind:
    """What device, model and engine say beforehand, where they are known."""
    device = given.device or ""
    gpus = [gpu for name, gpu in GPUS.items() if name == device or device.startswith(gpu.title)]
    model = given.model_config or (given.model or "").rpartition("/")[2].lower()
    known = given.model_config is not None or model in bundled_models()
    sizes = AttentionSizes.of(find_model(model)) if known else None
    is_vllm = (given.engine or "").lower().startswith("vllm")
    physics = physics_of(
        gpus[0] if gpus else None,
        sizes,
        tensor_parallel=given.tensor_parallel,
        batch_sizes=VLLM_BATCH_SIZES if is_vllm else (),
        captured_tokens=given.captured_tokens or (VLLM_CAPTURED_TOKENS if is_vllm else None),
    )
    if given.attention_tokens_per_pair is not None:
        physics = physics._replace(attention_tokens_per_pair=given.attention_tokens_per_pair)
    return StepsKind(physics, given.launch_on_step_before)


def _command(given: argparse.Namespace, options: FitOptions) -> str:
    """The command that makes the same fit again; the setting is elsewhere in the table."""
    words = ["python", "-m", "calibration.from_steps", given.log.as_posix()]
    words += ["--kind", given.kind, "--segment", options.segment]
    if options.test_segment is not None:
        words += ["--test-segment", options.test_segment]
    words += ["--held-out", f"{options.held_out_share:g}", "--seed", str(options.seed)]
    if options.attention_tokens_per_pair is not None:
        words += ["--attention-tokens-per-pair", f"{options.attention_tokens_per_pair:g}"]
    if options.drop_over_ms is not None:
        words += ["--drop-over-ms", f"{options.drop_over_ms:g}"]
    words += ["--drop-factor", f"{options.drop_factor:g}"]
    if given.model_config is not None:
        words += ["--model-config", given.model_config]
    if given.captured_tokens is not None:
        words += ["--captured-tokens", str(given.captured_tokens)]
    if given.launch_on_step_before:
        words.append("--launch-on-step-before")
    return f"{shlex.join(words)} -o TABLE …"


if __name__ == "__main__":
    sys.exit(main())
