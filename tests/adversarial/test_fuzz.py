"""The driver sees faults, crashes and hangs, goes on, and shows the smallest case of each
failure.
"""

from __future__ import annotations

import pytest

from adversarial.fuzz import fuzz

EXPECTED = """
faults, seed 0: 8 cases
       1  abort: it killed the process, exit code 3
       1  hang: it hung
       3  right: right
       1  wrong: ValueError: # is not larger
       2  wrong: larger than 3

--- abort: it killed the process, exit code 3 (size 1)
abort()

--- hang: it hung (size 1)
hang()

--- wrong: larger than 3 (size 4)
wrong(4)
# case 5 of seed 0: larger than 3: 4

--- wrong: ValueError: # is not larger (size 1)
wrong(1)
# case 6 of seed 0: 1 is not larger
"""


@pytest.mark.exhaustive
def test_every_way_to_fail(capfd):
    assert fuzz("faults", seconds=60, seed=0, patience=5) == 4
    assert capfd.readouterr().out == EXPECTED
