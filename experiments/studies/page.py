"""`docs/studies.md`: the text between a study's two marks is written by its program."""

from __future__ import annotations

from pathlib import Path

from simulator.errors import ConfigError


def section(page: str, name: str) -> str:
    """What stands between the marks of a study.

    Raises:
        ConfigError: the page has no such marks.
    """
    begin, end = _marks(name)
    if begin not in page or end not in page:
        raise ConfigError(f"the page has no {begin} ... {end}")
    return page.partition(begin)[2].partition(end)[0].strip("\n")


def write_section(path: Path, name: str, lines: list[str]) -> None:
    """Replace what stands between the marks of a study."""
    page = path.read_text(encoding="utf-8")
    begin, end = _marks(name)
    old = section(page, name)
    text = "\n".join(lines)
    before, after = page.split(begin)[0], page.split(end)[1]
    if text != old:
        path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: written by the study -->", f"<!-- end of {name} -->"
