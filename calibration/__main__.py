"""`python -m calibration`: as `runway calibrate`, where only torch and numpy are installed."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from .errors import CalibrationError
from .options import (
    FLAGS,
    FROM_REQUESTS_HELP,
    FROM_STEPS_HELP,
    OUTPUT_HELP,
    run_calibration,
    run_from_requests,
    run_from_steps,
)

EVERY_S = 5.0


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CalibrationError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status: 0, 2 with one message for bad input, 130 interrupted."""
    try:
        given, more = _parser().parse_known_args(arguments)
        if given.from_steps:
            return run_from_steps(given.from_steps, vars(given), given.output, more)
        if given.from_requests:
            return run_from_requests(given.from_requests, vars(given), given.output, more)
        if more:
            raise CalibrationError(f"no option {more[0]}; see python -m calibration --help")
        outcome = run_calibration(vars(given), given.output, _lines(quiet=given.quiet))
    except CalibrationError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: --resume goes on from here\n")
        return 130
    if not given.quiet:
        sys.stdout.write(outcome.summary + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m calibration", description="Time a model's kernels; write a cost table."
    )
    for flag in FLAGS:
        if flag.kind is bool:
            parser.add_argument(f"--{flag.name}", action="store_true", help=flag.help)
        else:
            parser.add_argument(
                f"--{flag.name}", type=flag.kind, metavar=flag.metavar, help=flag.help
            )
    parser.add_argument("--from-steps", metavar="LOG.CSV", help=FROM_STEPS_HELP)
    parser.add_argument("--from-requests", action="append", metavar="LOG", help=FROM_REQUESTS_HELP)
    parser.add_argument(
        *("-o", "--output"), type=Path, required=True, metavar="TABLE", help=OUTPUT_HELP
    )
    return parser


class _lines:  # noqa: N801  # reads as the function it stands for
    """Progress as a line on stderr every few seconds."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._start = self._told = time.monotonic()

    def __call__(self, share: float, done: int, total: int) -> None:
        now = time.monotonic()
        if self._quiet or now - self._told < EVERY_S:
            return
        self._told = now
        left = (now - self._start) * (1 - share) / share if share else 0
        sys.stderr.write(
            f"calibrating: round {1 + done // (total + 1)}, {share:.0%} of the time, "
            f"about {left:.0f} s left\n"
        )


if __name__ == "__main__":
    sys.exit(main())
