"""Files of recorded cases: `.json` (one case), `.jsonl` (one a line), and both gzipped."""

from __future__ import annotations

import glob
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


def case_files(names: list[str]) -> list[Path]:
    """Files, directories (the case files in them) and globs."""
    files: list[Path] = []
    for name in names:
        for path in [Path(match) for match in sorted(glob.glob(name))] or [Path(name)]:
            if path.is_dir():
                files += [file for file in sorted(path.iterdir()) if file.name.endswith(SUFFIXES)]
            else:
                files.append(path)
    return files


def read_cases(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of one file, in order."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
    else:
        yield json.loads(text)
