"""Reference of ``multi_gpu_p2p``: what lands on a device is what its peer held, and what is computed beside it is
exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from runner.references.arrays import elements
from runner.references.host_transfer import mirrored

if TYPE_CHECKING:
    from runner.check.case import Case
    from runner.plan.model import Check


def expected(case: Case, check: Check, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Elements ``rows``, float64, shape (rows,)."""
    name, _, place = check.output.rpartition("_gpu")
    if name == "worked":
        return mirrored(elements(case, f"work_gpu{place}", rows, case["n"]), case["compute"])
    peer = case["src"] if int(place) == case["dst"] else case["dst"]
    return elements(case, f"payload_gpu{peer}", rows, case["n"]).astype(np.float64)
