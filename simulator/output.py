"""A file to write: checked before the work, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .errors import ConfigError


def check_output(path: Path, *, endings: Sequence[str] = ()) -> None:
    """Find out before any work whether a file can be written; nothing is left behind.

    endings: those that the file's name may have, as in `.png`; empty for any.

    Raises:
        ConfigError: it has another ending, is a folder or a device, lies in a file, or the folder
            cannot be written to.
    """
    try:
        if path.is_dir():
            raise ConfigError(f"cannot write {path}: it is a folder, name a file")
        if path.exists() and not path.is_file():
            raise ConfigError(f"cannot write {path}: it is no regular file, name another")
        _check_ending(path, endings)
        _check_folder(path, next(parent for parent in path.parents if parent.exists()))
    except OSError as error:
        raise _refused(path, error) from None


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A draft beside the file; on a clean exit it becomes the file, else nothing stays.

    Raises:
        ConfigError: the place cannot be written to.
    """
    check_output(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        draft.replace(path)
    except OSError as error:
        raise _refused(path, error) from None
    finally:
        if path.parent.is_dir():
            draft.unlink(missing_ok=True)


def _check_ending(path: Path, endings: Sequence[str]) -> None:
    if endings and path.suffix.lower() not in endings:
        raise ConfigError(
            f"cannot write {path}: its name has the ending {path.suffix!r}, must have "
            f"{' or '.join(endings)}"
        )


def _check_folder(path: Path, folder: Path) -> None:
    """folder: the innermost one above the file that exists already."""
    if not folder.is_dir():
        raise ConfigError(f"cannot write {path}: {folder} is a file, name a folder")
    with tempfile.TemporaryFile(dir=folder):
        return


def _refused(path: Path, error: OSError) -> ConfigError:
    why = error.strerror or error
    return ConfigError(f"cannot write {path}: {why}: name a file in a folder you may write to")
