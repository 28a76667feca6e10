"""The copy itself."""

import numpy as np


def expected(case, check, rows):
    return case.input("x").astype(np.float64)[rows]
