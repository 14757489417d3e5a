"""What other processes use of the CPUs, from counters written by hand."""

from __future__ import annotations

import os
import time

import pytest

from calibration.live.busy import OtherProcesses


def test_others_are_what_the_machine_worked_without_this_process(tmp_path, monkeypatch):
    """In 10 s the machine worked 13 s (user 11, system 2; idle 5 does not count), this process
    8 s of them: others used half a CPU."""
    tick = os.sysconf("SC_CLK_TCK")
    stat = tmp_path / "stat"
    stat.write_text("cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0\n")
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "process_time", lambda: 1.0)
    others = OtherProcesses(stat)
    assert others.cpus() is None
    stat.write_text(f"cpu {11 * tick} 0 {2 * tick} {5 * tick} 0 0 0 7 0 0\n")
    monkeypatch.setattr(time, "monotonic", lambda: 110.0)
    monkeypatch.setattr(time, "process_time", lambda: 9.0)
    assert others.cpus() == pytest.approx(0.5)


def test_without_counters_nothing_is_said(tmp_path):
    assert OtherProcesses(tmp_path / "absent").cpus() is None
