"""Compiles the modules of the event loop with mypyc, where there is a C compiler.

The rest of the build is described in pyproject.toml. Without a compiler Runway installs all the
same: its event loop is then interpreted, with the same results (`simulator/compiled.py`).
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, CompileError, LinkError

ROOT = Path(__file__).parent

MODULES = (
    "costmodels/linear.py",
    "costmodels/lines.py",
    "simulator/block_run.py",
    "simulator/block_store.py",
    "simulator/decode_launch.py",
    "simulator/decode_pool.py",
    "simulator/engine.py",
    "simulator/feed.py",
    "simulator/keys.py",
    "simulator/kv_cache.py",
    "simulator/launch.py",
    "simulator/leap.py",
    "simulator/lifecycle.py",
    "simulator/prefix_cache.py",
    "simulator/prefix_keys.py",
    "simulator/request_log.py",
    "simulator/resume_cache.py",
    "simulator/schedulers/room.py",
    "simulator/schedulers/vllm.py",
    "simulator/sequence.py",
    "simulator/step_log.py",
)
"""What runs for every plan or request. Types of other libraries play no part in any of them."""

MYPY_OPTIONS = ["--config-file=", f"--cache-dir={os.devnull}", "--follow-imports=silent"]
"""The project's own (pyproject.toml) are for what is not compiled too."""

FAILURES = (BaseError, CCompilerError, CompileError, LinkError, OSError, SystemExit)
"""Of a compiler that is not there or refuses; `SystemExit` is how mypyc refuses."""


class CompileEventLoop(build_ext):
    """Compiles `MODULES`, or says why not; writes which source was compiled."""

    def run(self) -> None:
        """Compile into the build folder, or beside the source of an editable install."""
        compiled = runpy.run_path(str(ROOT / "simulator" / "compiled.py"))
        place = Path(self.get_ext_fullpath("simulator.compiled")).parent
        manifest: Path = compiled["manifest"](place)
        wanted = "".join(f"{compiled['line_of'](ROOT, name)}\n" for name in MODULES)
        there = all(compiled["compiled_file"](place.parent, name).exists() for name in MODULES)
        if there and manifest.exists() and manifest.read_text(encoding="utf-8") == wanted:
            return
        manifest.unlink(missing_ok=True)
        try:
            self._compile()
        except FAILURES as error:
            self.warn(f"the event loop stays interpreted: {error}")
            self.extensions = []
            return
        manifest.write_text(wanted, encoding="utf-8")

    def _compile(self) -> None:
        from mypyc.build import mypycify

        self.distribution.ext_modules = mypycify(
            [*MYPY_OPTIONS, *(str(ROOT / name) for name in MODULES)],
            group_name="simulator.event_loop",
        )
        command = build_ext(self.distribution)  # this one was set up when there was nothing to do
        for name in ("build_lib", "build_temp", "inplace", "editable_mode"):
            setattr(command, name, getattr(self, name))
        command.ensure_finalized()
        command.run()
        self.extensions = command.extensions


class WithEventLoop(Distribution):
    """A distribution of which a part is compiled, if only it can be."""

    def has_ext_modules(self) -> bool:
        """What decides whether `build_ext` is run at all."""
        return True


setup(cmdclass={"build_ext": CompileEventLoop}, distclass=WithEventLoop)
