"""``hydra/launcher=ray``: a sweep as tasks of a Ray cluster that runs already.

Hydra's own plugin for Ray wants the cloud's libraries and Ray's dashboard, waits for all tasks and gives up on all of
them where one is lost, and starts a task that crashed three times over. So its tasks are started here.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.config.errors import ConfigError
from runner.config.points import Point, Skipped
from runner.execute import on_node
from runner.launch import elsewhere, options
from runner.launch.cluster import Ended
from runner.launch.job import NodeJob, carried, for_node

LOG_FILE = "job.log"
"""In the point's folder: what the job printed."""
REACH_S = 5.0
"""A head that does not take a connection within this is not there; Ray itself would try for two minutes."""
JOIN_S = 60.0
"""Joining a Ray takes some seconds; after this it is given up."""
RETRIES = 1
"""A task whose node or process died is started again this often; it leaves out what it finds finished."""
SHARE = 0.001
"""Of a resource that only says what a node is."""
MOMENT_S = 1.0
CANCEL_S = 10.0
"""A cancelled task has this long to end its worker and to write what is finished."""


@dataclass
class Ray:
    """``conf/hydra/launcher/ray.yaml`` says what each means."""

    address: str = "auto"
    num_cpus: float = 1.0
    features: dict[str, str] | None = None


def run(
    points: Sequence[Point], skipped: Sequence[Skipped], sweep_id: str, folder: Path, given: Mapping[str, Any]
) -> int:
    """The exit code. Raises ``ConfigError``."""
    chosen = options.read(Ray, "ray", given)
    options.at_least("num_cpus", chosen.num_cpus, 0)
    return elsewhere.run(points, skipped, sweep_id, folder, RayCluster(chosen))


def on_node_of_ray(job: NodeJob) -> None:
    """What Ray calls on a node."""
    context = importlib.import_module("ray").get_runtime_context()
    log = job.point.folder / LOG_FILE
    job.require_folder()
    with (
        log.open("a", encoding="utf-8", buffering=1) as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(file),
    ):
        job.run("ray", context.get_task_id(), str(log))


class RayCluster:
    """Tasks of a Ray that was started by ``ray start``."""

    title = "Ray"

    def __init__(self, settings: Ray) -> None:
        self.settings = settings
        self._ray: Any = None
        self._tasks: dict[Any, Point] = {}
        """Those that have not ended, by Ray's reference."""

    def submit(self, points: Sequence[Point], folder: Path) -> str:
        if importlib.util.find_spec("ray") is None:
            raise ConfigError("hydra/launcher=ray: Ray is not installed (pip install '.[ray]')")
        asked = [self._needs(point) for point in points]
        self._connect()
        self._check(points, asked)
        working, variables = os.getcwd(), carried()
        task = self._ray.remote(max_retries=RETRIES)(on_node_of_ray)
        for point, needs in zip(points, asked, strict=True):
            reference = task.options(name=f"runner {point.number}", **needs).remote(
                NodeJob(for_node(point), folder, working, variables)
            )
            self._tasks[reference] = point
        nodes = sum(1 for node in self._ray.nodes() if node["Alive"])
        return f"Ray: {len(points)} jobs submitted to {nodes} nodes; logs: {folder}/*/{LOG_FILE}"

    def _needs(self, point: Point) -> dict[str, Any]:
        """What a task asks of its node, as Ray's options."""
        config = point.config
        needs: dict[str, Any] = {"num_cpus": self.settings.num_cpus, "num_gpus": 0}
        if config.gpu.backend == "host" or config.kernel.kind == "estimate":
            return needs
        count = len(config.devices)
        if sorted(config.devices) != list(range(count)):
            raise ConfigError(
                f"devices={list(config.devices)}: a job counts the devices that it is given from 0; "
                f"write devices={list(range(count))}"
            )
        needs["num_gpus"] = count
        if config.gpu.backend == "cuda":
            needs["resources"] = {(self.settings.features or {}).get(config.gpu.name, config.gpu.name): SHARE}
        return needs

    def _connect(self) -> None:
        """Raises ``ConfigError`` where no Ray answers."""
        address = self.settings.address
        where = f"hydra.launcher.address={address}"
        host, colon, port = address.rpartition(":")
        if address == "auto":
            address = os.environ.get("RAY_ADDRESS") or address
        elif not colon or not port.isdigit() or "/" in host:
            raise ConfigError(
                f"{where}: must be auto (the Ray of this machine) or <head>:<port>, as ray start prints it"
            )
        if address != "auto":
            _require_listening(where, *address.rsplit(":", 1))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = importlib.import_module("ray")
        logging.getLogger("ray").setLevel(logging.ERROR)  # what fails is said by us
        failed: list[BaseException] = []

        def join() -> None:
            try:
                self._ray.init(address=address, log_to_driver=False, configure_logging=False)
            except (Exception, SystemExit) as error:  # Ray leaves the process where a limit of its own has passed
                failed.append(error)

        # In a thread: Ray tries a head that is gone for minutes, and puts signal handlers of its own over ours.
        thread = threading.Thread(target=join, daemon=True)
        thread.start()
        thread.join(JOIN_S)
        if thread.is_alive():
            self._ray = None
            raise ConfigError(f"{where}: the Ray that was started there does not answer within {JOIN_S:g} s")
        if failed:
            said = " ".join(str(failed[0]).split()[:40]).rstrip(".")
            started = "; one is started with ray start --head" if address == "auto" else ""
            raise ConfigError(f"{where}: no Ray can be joined there: {said}{started}") from failed[0]

    def _check(self, points: Sequence[Point], asked: Sequence[Mapping[str, Any]]) -> None:
        """Raises ``ConfigError`` for what no node has: Ray would let it wait for ever."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for point, needs in zip(points, asked, strict=True):
            config, cpus, gpus = point.config, needs["num_cpus"], needs["num_gpus"]
            most = max(node.get("CPU", 0) for node in nodes)
            if cpus > most:
                raise ConfigError(f"hydra.launcher.num_cpus={cpus:g}: no node of this Ray has more than {most:g}")
            for name in needs.get("resources", ()):
                nodes_with = [node for node in nodes if name in node]
                if not nodes_with:
                    known = sorted({key for node in nodes for key in node if not _is_rays_own(key)})
                    raise ConfigError(
                        f"gpu={config.gpu.name}: no node of this Ray has the resource {name} (there are "
                        f"{', '.join(known) or 'none'}); hydra.launcher.features={{{config.gpu.name}: …}} "
                        "says what it is called here"
                    )
            most = max(node.get("GPU", 0) for node in nodes if all(name in node for name in needs.get("resources", ())))
            if gpus > most:
                more = f"no node of this Ray has more than {most:g}" if most else "no node of this Ray has any"
                raise ConfigError(
                    f"devices={list(config.devices)}: {gpus} GPUs asked, and {more}{_for_host(config.gpu.name)}"
                )

    def ended(self) -> list[Ended]:
        ready, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=MOMENT_S)
        if ready:
            ready, _ = self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=0)
        return [self._ended(reference) for reference in ready]

    def _ended(self, reference: Any) -> Ended:
        point = self._tasks.pop(reference)
        job = {"launcher": "ray", "log": str(point.folder / LOG_FILE)}
        lost = ""
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            lost = f"Ray job {point.number} was lost: {type(cause).__name__}: {_first_sentence(cause)}"
        answer = on_node.read(point.folder, point.sweep_id)
        if answer is None:
            return Ended(point, None, lost or f"Ray job {point.number} left no answer in {point.folder}", job)
        return Ended(point, answer, job=answer.job)

    def state(self) -> str:
        return f"Ray: {len(self._tasks)} jobs run or wait"

    def cancel(self) -> None:
        """As Ctrl-C in each task, which then ends its worker and keeps what is finished; by force where it does not."""
        left = list(self._tasks)
        self._tasks.clear()
        try:
            for reference in left:
                self._ray.cancel(reference, force=False)
            if left:
                _, left = self._ray.wait(left, num_returns=len(left), timeout=CANCEL_S)
        finally:  # also where the user has no patience
            for reference in left:
                self._ray.cancel(reference, force=True)

    def close(self) -> None:
        if self._ray is not None:
            self._ray.shutdown()


def _require_listening(where: str, host: str, port: str) -> None:
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except OSError as error:
        raise ConfigError(f"{where}: nothing answers there: {error.strerror or error}") from error


def _is_rays_own(name: str) -> bool:
    return name in ("CPU", "GPU", "memory", "object_store_memory") or name.startswith("node:")


def _for_host(gpu: str) -> str:
    return "; gpu=host runs on the CPU" if gpu == "auto" else ""


def _first_sentence(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text.partition(". ")[0][:300]
