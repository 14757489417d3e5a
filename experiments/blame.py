"""What a user's policy did wrong, as one line."""

from __future__ import annotations

import traceback
from pathlib import Path


def blame(error: BaseException, file: Path | None = None) -> str:
    """An exception from a user's file as one line: what, and the line of that file it came from."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} at {error.filename}:{error.lineno}"
    original = _original(error)
    frames = traceback.extract_tb(original.__traceback__)
    own = [f for f in frames if file is None or Path(f.filename).resolve() == file.resolve()]
    place = f" at {file or own[-1].filename}:{own[-1].lineno}" if own else ""
    words = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{words}{place}"


def _original(error: BaseException) -> BaseException:
    """SimPy raises a copy of what a process raised; the original, with its lines, is the cause."""
    return error.__cause__ or error
