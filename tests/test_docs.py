"""Every code block of the README, of docs/ and of the folders' READMEs runs, or it fails here.

What a block is follows from its language; a second word is the file it is saved as beside the
others of its page, so that later blocks can use it:

    python    run with the page's names; with `>>>` as a doctest
    console   each `$ runway ...` line is run, and must print what follows it (`...` matches
              anything); make targets and pip extras must exist; nothing else is run
    bash      as console, every line a command
    yaml      a run, a sweep or a cost table: read as such
    csv       saved
    text      not run: pictures and formulas
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from costmodels import list_cost_models, load_cost_model, load_table
from experiments.cli import COMMANDS, main
from experiments.cli.validate import ANOTHER
from experiments.config import RunConfig, load_config
from experiments.run import run_config, write_run
from experiments.sweep import load_spec

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("simulator", "costmodels", "calibration", "workloads", "experiments")
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.joinpath("docs").rglob("*.md")),
    *sorted(path for package in PACKAGES for path in ROOT.joinpath(package).rglob("*.md")),
]
LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NOT_RUN = ("cd", "git", "pip", "python3", "python3.11", "source", "open")


@dataclass(frozen=True)
class Block:
    """A fenced block. line: of its first line of code, 1-based. name: the file it is, or ''."""

    page: Path
    line: int
    language: str
    name: str
    code: str

    @property
    def place(self) -> str:
        """`file:line`, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        language, _, name = match[1].strip().partition(" ")
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Block(page, line, language, name, match[2]))
    assert text.count("\n```") + text.startswith("```") == 2 * len(found), f"{page}: odd fences"
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks_of(page):
        if block.name:
            Path(block.name).write_text(block.code, encoding="utf-8")
        if block.language == "python":
            run_python(block, names)
        elif block.language in ("console", "bash"):
            for command, expected in commands_of(block):
                run_command(block, command, expected)
        elif block.language == "yaml":
            read_yaml_block(block, tmp_path)
        else:
            assert block.language in ("csv", "text"), f"{block.place}: name a language"
            assert block.language == "text" or block.name, f"{block.place}: name the file"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not target.startswith(("https://", "#")):
            path, _, anchor = target.partition("#")
            assert page.parent.joinpath(path).exists(), f"{page.name}: no {target}"
            if anchor:
                assert anchor in anchors_of(page.parent / path), f"{page.name}: no {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_flag_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for name, rest in re.findall(rf"runway ({'|'.join(COMMANDS)})\b([^`\n#]*)", text):
        command = main.get_command(click.Context(main), name)
        if name == "validate" and (word := rest.split()[:1]) and word[0] in ANOTHER:
            command = command.make_context(name, [word[0]], resilient_parsing=True).command
        known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
        assert {*re.findall(r"(?<!\S)--[a-z-]+", rest)} <= {*known, "--help"}, (
            f"runway {name}{rest}"
        )


def test_every_field_of_the_results_is_explained(tmp_path: Path) -> None:
    config = RunConfig(workload="bundled", head=20, steps=True)
    outcome = run_config(config)
    write_run(outcome, tmp_path / "out")
    names = {*outcome.summary, *next(iter(outcome.summary["fairness"]["clients"]))}
    for section in ("window", "fairness", "saturation", "run", "cost_model", "provenance"):
        names |= {*outcome.summary[section]}
    for file in ("requests", "steps", "tokens", "preemptions"):
        names |= {*pq.read_schema(tmp_path / "out" / f"{file}.parquet").names}
    explained = {*re.findall(r"`(\w+)`", ROOT.joinpath("docs/metrics.md").read_text())}
    options = {name for name in names if name.startswith(("warmup_", "cooldown_"))}
    assert names - options <= explained


def test_the_readme_states_the_errors_of_the_bundled_tables() -> None:
    rows = re.findall(
        r"^\| `(b300\S+)` \| (.*?) %, (.*?) % \| (?:decode steps )?(.*?) %.*?([-+].*?) % \|",
        ROOT.joinpath("README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [name for name, *_ in rows] == [name for name, _ in list_cost_models()[: len(rows)]]
    for name, *stated in rows:
        table = load_cost_model(name).table
        held_out, beyond = table.held_out, table.extrapolation
        errors = (held_out["median"], held_out["p90"], beyond["decode_steps"]["mean"])
        assert stated == [
            *(f"{100 * error:.1f}" for error in errors),
            f"{100 * beyond['sum_of_all_steps']:+.1f}",
        ]
        assert beyond["time_outside_fitted_range"] > 0.94


def anchors_of(page: Path) -> set[str]:
    """Anchors that a page's headings make."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def run_python(block: Block, names: dict[str, object]) -> None:
    """Run with the page's names: as a doctest if it has prompts."""
    if ">>> " not in block.code:
        source = "\n" * (block.line - 1) + block.code
        exec(compile(source, str(block.page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(
        block.code, names, block.place, str(block.page), block.line - 1
    )
    told = io.StringIO()
    failed, _ = doctest.DocTestRunner(optionflags=LOOSELY, verbose=False).run(
        test, out=told.write, clear_globs=False
    )
    names.update(test.globs)
    assert not failed, told.getvalue()


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """(command, expected output) pairs; a backslash at the end continues a command."""
    lines = iter(block.code.splitlines())
    command, expected = "", []
    for line in lines:
        if block.language == "bash" or line.startswith("$ "):
            if command:
                yield command, "\n".join(expected)
            command, expected = line.removeprefix("$ "), []
            while command.endswith("\\"):
                command = command[:-1] + next(lines).removeprefix("> ").strip()
        else:
            expected.append(line)
    yield command, "\n".join(expected)


def run_command(block: Block, command: str, expected: str) -> None:
    """Run a `runway` command here and compare its output; look others up."""
    program, *words = shlex.split(command, comments=True)
    if program == "runway":
        result = CliRunner().invoke(main, words, prog_name="runway")
        assert result.exit_code == 0, f"{block.place}: {command}: {result.output}"
        check_output(block, command, expected, result.output)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", ROOT.joinpath("Makefile").read_text(), re.MULTILINE)
        assert {word for word in words if "=" not in word} <= {*targets}, f"{block.place}: {words}"
    elif program == "python" and words[:1] and words[0].endswith(".py"):
        script = Path(words[0])
        script = script if script.exists() else ROOT / script
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__"})
        check_output(block, command, expected, told.getvalue())
    else:
        assert program in NOT_RUN, f"{block.place}: {program} is neither run nor looked up"
        project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]
        for extra in re.findall(r"\.\[([\w,]+)\]", command):
            assert {*extra.split(",")} <= {*project["optional-dependencies"]}, block.place


def check_output(block: Block, command: str, expected: str, got: str) -> None:
    """Compare what a page shows with what came out, if it shows anything."""
    if expected.strip():
        equal = doctest.OutputChecker().check_output(expected + "\n", got, LOOSELY)
        assert equal, f"{block.place}: {command} prints\n{got}"


def read_yaml_block(block: Block, folder: Path) -> None:
    """Read as what its keys say it is."""
    path = folder / (block.name or "block.yaml")
    path.write_text(block.code, encoding="utf-8")
    if "runway_cost_table:" in block.code:
        load_table(path)
    elif re.search(r"^(base|grid):", block.code, re.MULTILINE):
        load_spec(path, {}, {})
    else:
        load_config(path)
