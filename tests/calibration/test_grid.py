"""Which steps are timed."""

from __future__ import annotations

import pytest

from calibration.grid import MIXED_CHUNK, Limits, Shape, grid_of, held_out_of, token_counts

CPU = Limits(1024, 32, 2048, 33 * 2048)
GPU = Limits(8192, 256, 32768, 300_000, fine=True)


@pytest.mark.parametrize("limits", [CPU, GPU, Limits(33, 3, 40, 200)])
def test_every_shape_is_within_the_limits_and_comes_once(limits):
    grid = grid_of(limits)
    assert grid == sorted({*grid})
    assert all(limits.hold(shape) for shape in grid)


@pytest.mark.parametrize("limits", [CPU, GPU])
def test_the_grid_has_what_a_table_needs(limits):
    grid = grid_of(limits)
    assert Shape(MIXED_CHUNK, 0, 0, 0) in grid
    assert Shape(limits.max_tokens, 0, 0, 0) in grid
    assert any(shape.past for shape in grid)
    assert any(shape.chunk and shape.decode_seqs for shape in grid)
    assert any(shape.decode_seqs == limits.max_seqs for shape in grid)
    assert max(shape.width for shape in grid) == limits.max_context


def test_a_gpu_is_timed_on_both_sides_of_every_tile_edge():
    counts = token_counts(GPU)
    for edge in (128, 256, 384, 512):
        assert {edge, edge + 1} <= {*counts}
    assert {*range(1, 17)} <= {*counts}


def test_held_out_steps_are_15_percent_of_all_and_never_in_the_grid():
    grid = grid_of(CPU)
    held_out = held_out_of(CPU, grid, seed=0)
    assert len(held_out) / (len(held_out) + len(grid)) == pytest.approx(0.15, abs=0.01)
    assert not {*held_out} & {*grid}
    assert all(CPU.hold(shape) for shape in held_out)
    kinds = {(shape.chunk > 0, shape.decode_seqs > 0) for shape in held_out}
    assert kinds == {(True, False), (False, True), (True, True)}


def test_the_seed_chooses_the_held_out_steps():
    grid = grid_of(CPU)
    assert held_out_of(CPU, grid, seed=3) == held_out_of(CPU, grid, seed=3)
    assert held_out_of(CPU, grid, seed=3) != held_out_of(CPU, grid, seed=4)
