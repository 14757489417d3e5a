"""The lesson's numbers: they must hold to the nanosecond."""

import pytest

from costmodels import LessonCostModel
from simulator.plan import StepShape

LESSON = LessonCostModel()


@pytest.mark.parametrize(
    ("chunks", "seqs", "ms"),
    [
        (((2048, 0),), 0, 80),
        (((2048, 0),), 4, 88),
        (((256, 0),), 0, 10),
        (((256, 512),), 4, 18),
        ((), 4, 8),
        ((), 1, 8),
        (((252, 0),), 4, 17.84375),
        (((32, 2016),), 4, 9.25),
        (((100, 0), (152, 0)), 4, 17.84375),
    ],
)
def test_price(chunks, seqs, ms):
    assert LESSON.step_ns(StepShape(chunks, seqs, 100 * seqs)) == ms * 1_000_000


def test_a_budget_of_256_shared_with_four_decodes_gives_a_ttft_of_152_ms():
    """Eight steps of 252 prompt tokens and one of 32: 8 x 17.84375 + 9.25 = 152."""
    shapes = [StepShape(((252, 252 * k),), 4, 400) for k in range(8)]
    shapes.append(StepShape(((32, 2016),), 4, 400))
    assert sum(LESSON.step_ns(shape) for shape in shapes) == 152_000_000


def test_a_leap_is_flat():
    assert LESSON.leap_ns(StepShape((), 4, 400), 3).tolist() == [8_000_000] * 3
