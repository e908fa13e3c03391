"""Work in steps that is done at once."""

from __future__ import annotations

import pytest

from gpumon.base.steps import result_of


def counted(to, done):
    for number in range(to):
        done.append(number)
        yield number
    return sum(done)


@pytest.mark.parametrize(("to", "result"), [(0, 0), (1, 0), (4, 6)])
def test_every_step_is_done_and_the_result_returned(to, result):
    done = []
    assert result_of(counted(to, done)) == result
    assert done == list(range(to))


def test_an_error_of_a_step_is_raised():
    with pytest.raises(ZeroDivisionError):
        result_of(1 / number for number in (1, 0))
