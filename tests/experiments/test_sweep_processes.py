"""Processes of this machine: forked from one that has loaded all, and gone with their leader."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from multiprocessing import forkserver
from pathlib import Path

import pytest

from experiments.fork_server import fork_context, warm_up
from experiments.sweep.processes import processes
from simulator.errors import RunwayError

forked = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")

# Jobs for `eval`, a builtin: a worker need not load anything to know it.
PARENT = "__import__('os').getppid()"
INTERRUPT = "__import__('os').kill(__import__('os').getpid(), 2) or 'still here'"
IS_LOADED = "'experiments.sweep.runner' in __import__('sys').modules"
IS_FROZEN = "__import__('gc').get_freeze_count() > 0"
THREADS = "__import__('os').environ.get('OPENBLAS_NUM_THREADS')"
DIE = "__import__('os').kill(__import__('os').getpid(), 9)"


@forked
def test_a_process_is_forked_with_everything_loaded() -> None:
    """Of a pool that loads nothing itself."""
    forkserver._forkserver._stop()  # one of another test has loaded other things
    warm_up(2, "loky")
    context = fork_context()
    assert context is not None
    with context.Pool(1) as pool:
        assert pool.apply(eval, (IS_LOADED,))
        assert pool.apply(eval, (IS_FROZEN,))


@forked
@pytest.mark.parametrize("asked", [None, "2"])
def test_a_process_has_one_thread_of_its_own_unless_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, asked: str | None
) -> None:
    """The environment of the process that leads stays as it was."""
    if asked is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", asked)
    forkserver._forkserver._stop()  # one of another test has another environment
    with processes(2) as unordered:
        assert [*unordered(eval, [THREADS] * 2)] == [asked or "1"] * 2
    assert os.environ.get("OPENBLAS_NUM_THREADS") == asked


@forked
def test_all_workers_come_from_one_process_that_stays_for_the_next() -> None:
    with processes(2) as unordered:
        parents = {*unordered(eval, [PARENT] * 2)}
    with processes(2) as unordered:
        parents |= {*unordered(eval, [PARENT] * 2)}
    assert len(parents) == 1
    assert parents.isdisjoint({os.getpid(), os.getppid()})


@forked
def test_ctrl_c_is_not_for_workers_to_answer() -> None:
    with processes(2) as unordered:
        assert [*unordered(eval, [INTERRUPT] * 2)] == ["still here"] * 2


def test_a_job_that_comes_alone_needs_no_process() -> None:
    with processes(2) as unordered:
        assert [*unordered(eval, ["__import__('os').getpid()"])] == [os.getpid()]


def test_an_error_in_a_worker_is_raised_and_ends_the_others() -> None:
    """The second job would never end: it reads from a pipe that nobody writes to."""
    forever = "__import__('os').read(__import__('os').pipe()[0], 1)"
    with pytest.raises(ZeroDivisionError), processes(2) as unordered:
        list(unordered(eval, ["1 / 0", forever]))


def test_a_worker_that_is_killed_is_one_message() -> None:
    with (
        pytest.raises(RunwayError, match=r"was killed, perhaps for want of memory \(jobs 2\): run"),
        processes(2) as unordered,
    ):
        list(unordered(eval, [DIE] * 2))


def test_a_job_that_kills_its_process_is_known_and_the_others_are_done() -> None:
    """Also when it comes alone; processes are there again for what comes afterwards."""
    deaths: list[str] = []

    def died(job: str, how: str) -> str:
        deaths.append(how)
        return job

    jobs = [*map(str, range(10)), DIE, *map(str, range(10, 20)), "__import__('os')._exit(3)"]
    with processes(2) as unordered:
        results = {*unordered(eval, jobs, died)}
        assert [*unordered(eval, [DIE], died)] == [DIE]
        assert {*unordered(eval, ["1", "2"])} == {1, 2}
    assert results == {*range(20), DIE, jobs[-1]}
    assert sorted(deaths) == ["exit code 3", *["killed by signal 9: out of memory?"] * 2]


def test_an_end_in_the_middle_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C, wherever loky's own thread is with the jobs that it holds."""
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    for done in range(1, 40, 4):
        with pytest.raises(KeyboardInterrupt):
            interrupt_after(done)
    assert said == []


def interrupt_after(done: int) -> None:
    with processes(2) as unordered:
        ready = unordered(eval, ["None"] * 2000)
        for _ in range(done):
            next(ready)
        raise KeyboardInterrupt


UNGUARDED = """
from pathlib import Path
from experiments.sweep.runner import run_sweep
from experiments.sweep.spec import load_spec

base = {"requests": 20, "rate": 4, "cost_model": "b300-qwen3-32b-tp2"}
spec = load_spec(None, base, {"chunk_size": ["256", "512"]})
print(len(run_sweep(spec, Path("swept"), jobs=2).rows), __file__)
"""


@pytest.mark.parametrize("how", [["script.py"], ["-m", "script"]], ids=["file", "module"])
def test_a_script_may_sweep_as_it_is_read(tmp_path: Path, how: list[str]) -> None:
    """Without `if __name__ == "__main__"`: its workers do not read it."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, *how],
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stderr == ""
    rows, file = done.stdout.split()
    assert (rows, Path(file).name) == ("2", "script.py")


LEADER = """
import sys
from experiments.sweep.processes import processes

if __name__ == "__main__":
    with processes(2) as unordered:
        print(*unordered(eval, [sys.argv[1]] * 2))
"""


def leader(folder: Path, job: str) -> subprocess.Popen[str]:
    """A process that leads two workers, each with this job."""
    program = folder / "leader.py"
    program.write_text(LEADER)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, program, job], env=environment, stdout=subprocess.PIPE, text=True
    )


@forked
def test_nothing_is_left_running_when_the_leader_has_ended(tmp_path: Path) -> None:
    """The process that its workers were forked from ends before it: its CPU time counts too."""
    with leader(tmp_path, PARENT) as process:
        printed, _ = process.communicate()
    server, same = map(int, printed.split())
    assert server == same
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)


@forked
def test_kill_9_of_the_leader_ends_workers_in_the_middle_of_a_job(tmp_path: Path) -> None:
    """Each worker holds a pipe open for writing and waits at another; the first then ends."""
    held, awaited = tmp_path / "held", tmp_path / "awaited"
    os.mkfifo(held)
    os.mkfifo(awaited)
    job = f"[file := open({str(held)!r}, 'wb', 0), file.write(b'x'), open({str(awaited)!r}, 'rb')]"
    reading = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    with leader(tmp_path, job) as process:
        both = read_within_a_minute(reading) + read_within_a_minute(reading)
        process.kill()
    assert both == b"xx"
    assert read_within_a_minute(reading) == b""
    os.close(reading)


def read_within_a_minute(pipe: int) -> bytes:
    """The next bytes, or none where the last writer has closed it."""
    assert select.select([pipe], [], [], 60)[0], "nothing came, and the pipe is still open"
    return os.read(pipe, 1)
