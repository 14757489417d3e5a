"""Where the numbers come from: versions, input files by content, notes. No dates, no hosts."""

from __future__ import annotations

import hashlib
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def runway_version() -> str:
    """The version of Runway: of the installed distribution, else of the checkout it runs from."""
    try:
        return version("llm-runway")
    except PackageNotFoundError:
        project = Path(__file__).parents[1] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])


def file_identity(path: Path) -> dict[str, str]:
    """A file by its name (without folders) and the SHA-256 of its bytes, lower-case hex."""
    with path.open("rb") as file:
        return {"name": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
