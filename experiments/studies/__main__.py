"""`python -m experiments.studies [NAME ...]`: run, draw, and write the findings into the page."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.plots.studies import draw_study
from simulator.errors import ConfigError, nearest

from . import agents, chat, documents, voice
from .page import write_section
from .study import run_study

DOCS = Path(__file__).resolve().parents[2] / "docs"
STUDIES = {each.STUDY.name: each for each in (chat, documents, agents, voice)}


def main(names: list[str]) -> None:
    """The studies of these names, or all."""
    for name in names or STUDIES:
        if name not in STUDIES:
            raise ConfigError(f"no study {name!r}{nearest(name, STUDIES)}: {', '.join(STUDIES)}")
        study = STUDIES[name]
        outcome = run_study(study.STUDY)
        figure = draw_study(outcome, DOCS / "figures" / f"study-{name}.png")
        write_section(DOCS / "studies.md", name, study.findings(outcome))
        sys.stdout.write(f"drew docs/figures/{figure.name} and wrote {name} in docs/studies.md\n")


if __name__ == "__main__":
    main(sys.argv[1:])
