"""The flags of `runway calibrate` and of `python -m calibration`: one list for both."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import CalibrationError

if TYPE_CHECKING:
    from .measuring import Progress
    from .outcome import Outcome


class Flag(NamedTuple):
    """A flag. kind: of its value, `bool` for a switch. metavar: its unit, for the help."""

    name: str
    kind: type
    help: str
    metavar: str | None = None

    @property
    def key(self) -> str:
        """As a Python name."""
        return self.name.replace("-", "_")


FLAGS = (
    Flag("model", str, "A model's config.json, or the name of a bundled one.", "FILE|NAME"),
    Flag("device", str, "cpu, cuda or cuda:N. [default: cpu]", "DEVICE"),
    Flag("dtype", str, "float32, bfloat16 or float16. [default: float32]", "DTYPE"),
    Flag("kv-cache-dtype", str, "auto, fp8, fp8_e5m2, int8 ... [default: auto]", "DTYPE"),
    Flag("tensor-parallel-size", int, "Devices that share the model. [default: 1]", "N"),
    Flag("all-reduce-bandwidth", float, "Of a ring, where it is not to be timed.", "GB/S"),
    Flag("all-reduce-latency", float, "Of one, where it is not to be timed.", "US"),
    Flag(
        "attention-backend",
        str,
        "flashinfer, flash_attn or torch_sdpa. [default: auto, the first that runs]",
        "NAME",
    ),
    Flag(
        "cudagraph-capture-sizes",
        str,
        "Decode batches that are padded to, as in 1,2,4,8. [default: cpu none, GPU vLLM's]",
        "N,N",
    ),
    Flag("smooth", str, "none or isotonic: noise that falls as work grows. [default: none]", "HOW"),
    Flag("time-budget", float, "Stop measuring after so long. [default: 90]", "S"),
    Flag("max-num-batched-tokens", int, "Largest step. [default: cpu 1024, GPU 8192]", "N"),
    Flag("max-num-seqs", int, "Largest decode batch. [default: cpu 32, GPU 256]", "N"),
    Flag("max-model-len", int, "Longest context. [default: cpu 2048, GPU 32768]", "N"),
    Flag("threads", int, "Of torch on a CPU. [default: the fastest; 1 if others use it]", "N"),
    Flag("clock", str, "wall, or cpu: CPU time. [default: wall; cpu if others use it]", "NAME"),
    Flag("seed", int, "Chooses weights, order and held-out steps. [default: 0]", "N"),
    Flag("name", str, "Name of the table. [default: model-device-dtype]", "NAME"),
    Flag("resume", bool, "Go on with OUTPUT.partial, as a killed run left it."),
    Flag("quiet", bool, "Print nothing but errors."),
)
FROM_STEPS_HELP = (
    "Fit a log of real engine steps instead of measuring; takes the flags of "
    "python -m calibration.from_steps."
)
FROM_REQUESTS_HELP = (
    "Fit a log of request times (TTFT, E2E) by simulating it; repeatable, the last of several logs "
    "is held out; takes the flags of python -m calibration.from_requests."
)
OUTPUT_HELP = "The cost table to write."
PASSED_ON = ("model", "device", "dtype", "name", "seed")
"""Flags that `--from-steps` takes too."""

Given = Mapping[str, object]


def run_calibration(given: Given, output: Path, progress: Progress) -> Outcome:
    """Measure with the flags given (None or absent: not given).

    Raises CalibrationError, also where torch is not installed.
    """
    flags = {flag.key: given[flag.key] for flag in FLAGS if given.get(flag.key) not in (None, "")}
    if "model" not in flags:
        raise CalibrationError("--model is missing: give a config.json or the name of a model")
    if importlib.util.find_spec("torch") is None:
        raise CalibrationError(
            "calibration runs kernels through torch, which is not installed: "
            "pip install 'llm-runway[calibration]', or pip install torch"
        )
    if output.is_dir():
        raise CalibrationError(f"cannot write {output}: it is a folder, name a file")
    if not output.resolve().parent.is_dir():
        raise CalibrationError(f"{output}: its folder does not exist")
    from .calibrate import calibrate
    from .settings import Settings

    command = command_of(flags, output)
    flags.pop("quiet", None)
    if "time_budget" in flags:
        flags["time_budget_s"] = flags.pop("time_budget")
    if "cudagraph_capture_sizes" in flags:
        flags["cudagraph_capture_sizes"] = _sizes(str(flags["cudagraph_capture_sizes"]))
    # Both parsers have converted every value to the kind of its flag.
    settings = Settings(output=output, **flags)  # type: ignore[arg-type]
    return calibrate(settings, progress, command=command)


def _sizes(text: str) -> tuple[int, ...]:
    """Numbers with commas between them.

    >>> _sizes("1,2,4")
    (1, 2, 4)
    """
    words = [word.strip() for word in text.strip("[]").split(",")]
    if not all(word.isdecimal() for word in words):
        raise CalibrationError(f"--cudagraph-capture-sizes {text!r}: must be as in 1,2,4,8")
    return tuple(map(int, words))


def command_of(flags: Given, output: Path) -> str:
    """The command that measures the same again.

    >>> command_of({"model": "a b.json", "threads": 1, "resume": True}, Path("t.json"))
    "python -m calibration --model 'a b.json' --threads 1 -o t.json"
    """
    words = ["python", "-m", "calibration"]
    for flag in FLAGS:
        if flag.key in flags and flag.kind is not bool:
            words += [f"--{flag.name}", str(flags[flag.key])]
    return shlex.join([*words, "-o", output.name])


def run_from_steps(log: str, given: Given, output: Path, more: Sequence[str]) -> int:
    """Fit a step log; the exit status. `more`: flags of `calibration.from_steps`."""
    from .from_steps import main

    passed = [
        word
        for key in PASSED_ON
        if given.get(key) is not None
        for word in (f"--{key}", str(given[key]))
    ]
    return main([log, "-o", str(output), *passed, *more])


def run_from_requests(logs: Sequence[str], given: Given, output: Path, more: Sequence[str]) -> int:
    """Fit logs of request times; the exit status. `more`: flags of `calibration.from_requests`."""
    from .from_requests import main

    passed = [
        word
        for flag in FLAGS
        if flag.kind is not bool and given.get(flag.key) is not None
        for word in (f"--{flag.name}", str(given[flag.key]))
    ]
    return main([*logs, "-o", str(output), *passed, *more])
