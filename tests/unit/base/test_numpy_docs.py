"""numpy without its descriptions computes as before."""

from __future__ import annotations

import subprocess
import sys

from gpumon.base.numpy_docs import leave_out_descriptions

LEFT_OUT = "from gpumon.base.numpy_docs import leave_out_descriptions as leave\nleave()\n"
NAMES = "import numpy, numpy.linalg\nprint(sorted(dir(numpy)), sorted(dir(numpy.linalg)))"


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_all_of_numpy_is_there_but_its_texts() -> None:
    assert printed(LEFT_OUT + NAMES) == printed(NAMES)
    work = "import numpy as np\nprint(np.add(1, 2), np.median([3., 1., 2.]), np.add.reduce.__doc__)"
    assert printed(LEFT_OUT + work) == "3 2.0 None\n"


def test_a_numpy_that_is_there_keeps_its_texts() -> None:
    import numpy as np

    leave_out_descriptions()
    assert np.ndarray.__doc__
    code = "import numpy as np\n" + LEFT_OUT + "print(bool(np.ndarray.__doc__))"
    assert printed(code) == "True\n"
