"""What the C library is told, and that another C library is left alone."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from calibration.device import keep_freed_memory  # after the skip


def test_glibc_keeps_large_blocks_and_gives_nothing_back(monkeypatch):
    """M_MMAP_THRESHOLD is -3, M_TRIM_THRESHOLD -1 (malloc.h)."""
    told = []
    library = SimpleNamespace(mallopt=lambda name, value: told.append((name, value)))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    keep_freed_memory()
    assert told == [(-3, 32 << 20), (-1, 1 << 30)]


def test_without_mallopt_nothing_is_done(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    keep_freed_memory()
