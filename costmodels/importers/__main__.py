"""`python -m costmodels.importers SOURCE FOLDER --model CONFIG -o TABLE`: someone else's tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from costmodels.model_config import bundled_models, find_model
from costmodels.table import save_table
from simulator.errors import RunwayError
from simulator.output import check_output

from . import IMPORTERS, import_table

BAD_INPUT = 2


def main(arguments: list[str] | None = None) -> int:
    """Write the table and say what it is; 2 and one line on stderr for bad input."""
    options = _parser().parse_args(arguments)
    try:
        check_output(options.output)
        model = find_model(options.model)
        table = import_table(options.source, options.folder, model, tensor_parallel=options.tp)
        save_table(table, options.output)
    except (RunwayError, OSError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return BAD_INPUT
    sys.stdout.write(f"{options.output}: {table.summary}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m costmodels.importers", description=__doc__)
    parser.add_argument("source", choices=sorted(IMPORTERS), help="who published the tables")
    parser.add_argument("folder", type=Path, help="where they lie")
    parser.add_argument(
        "--model", required=True, help=f"config.json, or {', '.join(bundled_models())}"
    )
    parser.add_argument("--tp", type=int, default=1, help="tensor-parallel degree (default: 1)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the table to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
