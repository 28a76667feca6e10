"""A real Slurm on this machine: a controller and two nodes with two counted GPUs each, on the loopback device."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import psutil

NODES = {"node1": "a100_80_sxm", "node2": "h100_sxm"}
"""Name → feature."""
_TOOLS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
_SILENT_S = 10
"""A node that is silent for so long is taken for dead."""

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=10
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
SlurmdTimeout={silent}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MinJobAge=300
KillWait=5
GresTypes=gpu
{nodes}
PartitionName=test Nodes={names} Default=YES MaxTime=60 DefaultTime=5 State=UP
"""
_NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000 Gres=gpu:2 "
    "Feature={feature}"
)
_GRES = "AutoDetect=off\nNodeName={names} Name=gpu File={folder}/dev/gpu[0-1] Flags=nvidia_gpu_env\n"


@lru_cache(maxsize=1)
def reason() -> str:
    """Why there can be none; empty when there can."""
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        return f"no Slurm ({', '.join(missing)}): apt-get install slurmctld slurmd slurm-client munge"
    return "" if os.geteuid() == 0 else "Slurm's daemons and their device files need root"


class SlurmHere:
    """``environment`` is what commands need to find it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Raises ``AssertionError`` with the daemons' logs where the nodes do not come up."""
        ports = _free_ports(1 + len(NODES))
        host, names = socket.gethostname().split(".")[0], ",".join(NODES)
        nodes = [
            _NODE.format(name=name, host=host, port=port, feature=feature)
            for (name, feature), port in zip(NODES.items(), ports[1:], strict=True)
        ]
        values = {"host": host, "folder": self.folder, "port": ports[0], "silent": _SILENT_S, "names": names}
        (self.folder / "slurm.conf").write_text(CONF.format(nodes="\n".join(nodes), **values))
        (self.folder / "gres.conf").write_text(_GRES.format(**values))
        for name in ("state", "munge", "dev"):
            (self.folder / name).mkdir(mode=0o711)
        for number in range(2):  # what /dev/null is: Slurm wants character devices, and hands out their numbers
            os.mknod(self.folder / "dev" / f"gpu{number}", 0o020666, os.makedev(1, 3))
        key = self.folder / "munge" / "key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(1024))
        files = [f"--{what}={self.folder}/munge/{what.split('-')[0]}" for what in ("key-file", "socket", "pid-file")]
        logs = [f"--{what}={self.folder}/munge/{what}" for what in ("log-file", "seed-file")]
        self._daemon("munged", "munged", "--foreground", *files, *logs)
        self._until(lambda: (self.folder / "munge" / "socket").exists())
        self._daemon("slurmctld", "slurmctld", "-D")
        for name in NODES:
            self.start_node(name)
        self._until(lambda: set(self.ask("sinfo", "-h", "-N", "-o", "%t").split()) == {"idle"})

    def start_node(self, name: str) -> None:
        """Also one that was killed."""
        self._daemon(name, "slurmd", "-D", "-N", name)

    def kill_node(self, name: str) -> None:
        """As a power failure: the daemon, and everything that it has started."""
        daemon = psutil.Process(self._daemons[name].pid)
        steps = [one for one in psutil.process_iter(["name"]) if _is_step(one, name)]
        children = [child for step in steps for child in [step, *step.children(recursive=True)]]
        for process in [daemon, *children]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._daemons[name].wait()

    def ask(self, *command: str) -> str:
        """What a command of Slurm's prints; empty where it fails."""
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **self.environment}
        )
        return done.stdout.strip()

    def stop(self) -> None:
        """Ends the jobs, then the daemons."""
        self.ask("scancel", "--full", "--user=root")
        with contextlib.suppress(AssertionError):
            self._until(lambda: not self.ask("squeue", "-h"), limit_s=15)
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _daemon(self, name: str, program: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [str(shutil.which(program)), *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def _until(self, true: object, limit_s: float = 60.0) -> None:
        assert callable(true)
        deadline = time.monotonic() + limit_s
        while not true():
            logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, logs
            time.sleep(0.2)


def _is_step(process: psutil.Process, node: str) -> bool:
    """A ``slurmstepd`` of the node, which outlives its ``slurmd``: known by what it has started."""
    with contextlib.suppress(psutil.Error):
        if process.info["name"] == "slurmstepd":
            return any(child.environ().get("SLURMD_NODENAME") == node for child in process.children(recursive=True))
    return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def started() -> Iterator[SlurmHere]:
    """Runs while the context lasts."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)
    slurm = SlurmHere(folder)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)
