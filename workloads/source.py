"""Opening a trace file: plain or gzip, whatever its name says, with errors in plain words."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from simulator.errors import WorkloadError, nearest

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Source:
    """A trace file that exists.

    layout: "csv", "jsonl" or "parquet", from its first bytes.
    sha256: of the file as stored.
    """

    path: Path
    gzipped: bool
    layout: str
    sha256: str

    @contextmanager
    def binary(self) -> Iterator[IO[bytes]]:
        """Its bytes, unpacked.

        Raises:
            WorkloadError: it cannot be read or its gzip data is damaged or cut off.
        """
        with _in_plain_words(self.path), open(self.path, "rb") as raw:
            if self.gzipped:
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield unpacked  # type: ignore[misc]  # GzipFile reads like any binary file
            else:
                yield raw

    @contextmanager
    def text(self) -> Iterator[io.TextIOWrapper]:
        """Its text (UTF-8, a byte-order mark is skipped), line ends as they are."""
        with self.binary() as raw:
            yield io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")


def open_source(path: str | Path) -> Source:
    """Look at a trace file without reading its rows.

    Raises:
        WorkloadError: no such file, not a regular file, unreadable, empty or damaged.
    """
    file = Path(path)
    with _in_plain_words(file):
        _require_file(file)
        with open(file, "rb") as raw:
            sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
            raw.seek(0)
            gzipped = raw.read(2) == _GZIP
            raw.seek(0)
            start = (gzip.GzipFile(fileobj=raw) if gzipped else raw).read(4096)
    return Source(file, gzipped, _layout(file, start), sha256)


def _require_file(file: Path) -> None:
    if not file.exists():
        siblings = file.parent.iterdir() if file.parent.is_dir() else ()
        raise WorkloadError(
            f"{file}: no such file{nearest(file.name, (other.name for other in siblings))}"
        )
    if not file.is_file():
        kind = "a directory" if file.is_dir() else "not a regular file"
        raise WorkloadError(f"{file}: is {kind}, a trace is one file")


def _layout(file: Path, start: bytes) -> str:
    if start.startswith(_PARQUET):
        return "parquet"
    text = start.removeprefix(_BOM).lstrip()
    if not text:
        raise WorkloadError(f"{file}: no requests, the file is empty")
    if text.startswith(b"["):
        raise WorkloadError(f"{file}: a JSON array, write one JSON object a line instead")
    return "jsonl" if text.startswith(b"{") else "csv"


@contextmanager
def _in_plain_words(file: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise WorkloadError(
            f"{file}: gzip data is damaged or cut off ({error}); nothing was read, copy it again"
        ) from error
    except UnicodeDecodeError as error:
        raise WorkloadError(
            f"{file}: is not UTF-8 text ({error.reason}); nothing was read, save it as UTF-8"
        ) from error
    except OSError as error:
        raise WorkloadError(f"{file}: {error.strerror or error}") from error
