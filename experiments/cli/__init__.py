"""The `runway` command. Subcommands are imported when they are asked for, so help stays quick."""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

COMMANDS = {
    "simulate": "Replay a workload through a scheduler; TTFT, TPOT, throughput, goodput.",
    "sweep": "Simulate a grid of settings: chunk size, token budget, rate, scheduler ...",
    "search": "The highest rate that meets an SLO, and the settings that get there.",
    "compare": "Two runs, or a run and a real engine's log: what differs, by how much.",
    "plot": "Draw the figures of saved results again.",
    "report": "Write one HTML page about saved results, for any browser, offline.",
    "trace": "Write a run as a Perfetto trace: steps, requests, counters.",
    "cost": "Price one step, term by term.",
    "calibrate": "Measure a model's kernels on this machine; write the cost table.",
    "validate": "Compare the simulation with measurements of real engines.",
    "lesson": "One long prompt among four streams: what chunked prefill does, step by step.",
    "list": "List schedulers, cost models, trace formats or presets.",
}
"""Subcommand -> its line in the help."""

MODULES = {"list": "catalogue", "report": "report_page"}
"""Subcommands whose module has another name: one called `list` would hide the builtin in here, and
`report` is the text that `simulate` prints."""

WITH_WORKERS = ("sweep", "search")
"""Subcommands that share their work out among processes."""

BAD_INPUT = 2
INTERRUPTED = 130

# What is there at the end goes with the process; to look for garbage in it first takes 0.1 s.
atexit.register(gc.freeze)


class LazyGroup(click.Group):
    """A group whose subcommand `x` is `command` in the module `x` of this package, and whose
    errors are one message on stderr: exit 2 for bad input, 130 when interrupted.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = MODULES.get(cmd_name, cmd_name)
        command = importlib.import_module(f"{__name__}.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(
                f"no command {args[0]!r}{_nearest(args[0], list(COMMANDS))}; see runway --help"
            )
        if args[0] in WITH_WORKERS:
            from .workers import start_workers

            start_workers(args[1:])
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *more: Any,  # Any: whatever else click passes on
        **extra: Any,  # Any: as above
    ) -> Any:  # Any: it never returns, click's signature says Any
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name or "runway", *more, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(BAD_INPUT)
        except click.NoSuchOption as error:
            _fail(f"no option {error.option_name}{_nearest_option(error)}")
        except click.ClickException as error:
            _fail(error.format_message())
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            _close_stdout()
        except OSError as error:
            if error.filename is not None:
                raise
            click.echo(f"Error: cannot write the output: {error.strerror or error}", err=True)
            _close_stdout()
        except Exception as error:
            from simulator.errors import RunwayError

            if not isinstance(error, RunwayError):
                raise
            _fail(str(error))
        sys.exit(code if isinstance(code, int) else 0)


def _nearest_option(error: click.NoSuchOption) -> str:
    parameters = error.ctx.command.params if error.ctx else []
    return _nearest(
        error.option_name, [opt for p in parameters for opt in (*p.opts, *p.secondary_opts)]
    )


def _nearest(name: str, known: list[str]) -> str:
    from simulator.errors import nearest

    return nearest(name, known)


def _close_stdout() -> None:
    """The reader of a pipe left, as `head` does: not an error, but nothing more can be said."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)


def _fail(message: str) -> None:
    click.echo(f"Error: {message}", err=True)
    sys.exit(BAD_INPUT)


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from experiments.provenance import runway_version
        from simulator.compiled import INTERPRETED_BECAUSE as REASON

        form = "compiled" if REASON is None else f"interpreted: {REASON}"
        click.echo(f"runway {runway_version()}, event loop {form}")
        ctx.exit()


@click.group("runway", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_version,
    help="Print the version, and whether the event loop is compiled.",
)
def main() -> None:
    """Runway simulates LLM serving: who gets the GPU next, and what that does to every wait."""
