"""Both devices end with the sum of the two vectors."""

import numpy as np


def expected(case, check, rows):
    return (case.input("x0").astype(np.float64) + case.input("x1"))[rows]
