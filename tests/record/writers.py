"""``python writers.py <uri> <root> <writers>``: that many processes file at once, each a sweep of its own, and all
one more that they share. The folders below ``root`` are there already. Prints a line for each problem."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import mlflow.store.tracking.sqlalchemy_store  # noqa: F401  imported once, before the forks

from runner.record import spool
from runner.record.filing import Filer
from runner.record.location import locate
from runner.record.mlflow_store import MlflowStore

SHARED = "shared"


def file(uri: str, root: Path, name: str) -> bool:
    filer = Filer(MlflowStore(locate(uri, root)))
    good = True
    for sweep in (name, SHARED):
        folders = [path.parent for path in spool.results(root / sweep)]
        sent = filer.results(root / sweep, folders)
        if sent.problem:
            print(f"{name}: {sweep}: {sent.problem}", flush=True)
            good = False
    return good


def main() -> int:
    uri, root, writers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    children = []
    for number in range(writers):
        child = os.fork()
        if child == 0:
            os._exit(0 if file(uri, root, f"sweep-{number}") else 1)
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main())
