"""`python -m experiments.validation.page REPORT PAGE...`: fill the tables of the pages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from simulator.errors import ConfigError

from . import fill


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill the pages; bad input ends with exit code 2 and one message."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.validation.page", description="Fill the tables of pages."
    )
    parser.add_argument(
        "report", metavar="REPORT", type=Path, help="report.json of runway validate"
    )
    parser.add_argument("pages", metavar="PAGE", type=Path, nargs="+", help="Markdown with marks")
    given = parser.parse_args(arguments)
    try:
        fill(given.report, given.pages)
    except ConfigError as error:
        parser.error(str(error))
    sys.stdout.write(f"wrote the tables of {', '.join(map(str, given.pages))}\n")


if __name__ == "__main__":
    main()
