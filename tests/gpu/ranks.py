"""A family of several devices, all of them on the same GPU: ``python -m tests.gpu.ranks FAMILY RANKS PARAMS``.

The kernels meet, read and write each other's buffers as on peers, in the memory of a real GPU; only the links are
missing. Prints a JSON object, variant → status, message and how many checks it passed. NCCL, which takes a GPU once
only, is left out. Needs ``CUDA_DEVICE_MAX_CONNECTIONS=32``: where streams share a queue, a kernel stays behind the one
that waits for it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from runner.backend.cuda.backend import CudaBackend
from runner.backend.cuda.device import CudaDevice
from runner.plan.planner import make_plan
from runner.worker.experiment import Experiment
from runner.workload import peers
from tests.kernels.hosted import ONCE, passed, programs
from tests.kernels.plans import H200, SOURCES, config


class Rank(CudaDevice):
    """One of several that share a GPU, and therefore its memory."""

    def can_access_peer(self, peer: object) -> bool:
        return True

    def enable_peer_access(self, peer: object) -> None:
        """Is enabled: it is the same context."""


def main(family: str, ranks: int, params: str) -> None:
    backend = CudaBackend()
    opened = [backend.open(0) for _ in range(ranks)]
    for device in opened:
        device.__class__ = Rank
    info = opened[0].info
    key = (info.backend, info.uuid, info.uuid)
    peers._TRIED[key] = peers.Access(direct=True)
    wanted = config(family, json.loads(params))
    wanted.devices = list(range(ranks))
    wanted.variants = [name for name in wanted.kernel.variants if "nccl" not in name]
    plan, _ = make_plan(wanted, replace(H200, arch=info.arch, sms=info.sms), [SOURCES])
    experiment = Experiment(backend, opened, plan, programs(plan), {})
    experiment.prepare()
    found = {}
    for variant in plan.variants:
        outcome, _ = experiment.run(variant.name, ONCE)
        checks = sum(check.passed for check in outcome.checks) if passed(outcome) else 0
        found[variant.name] = {"status": outcome.status.value, "message": outcome.message, "checks": checks}
    experiment.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
