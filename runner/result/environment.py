"""The evidence beside every result: which code, on which machine, with which versions and settings.

Nothing here opens a device, imports a heavy package or stores a credential. What only a device knows is
passed in.
"""

from __future__ import annotations

import copy
import getpass
import hashlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from runner.config.secrets import is_secret_key, redact_uri
from runner.result import commit

_PACKAGES = (
    "gpu-kernel-runner",
    "hydra-core",
    "omegaconf",
    "mlflow",
    "numpy",
    "scipy",
    "ml_dtypes",
    "nvtx",
    "pycuda",
    "cuda-bindings",
    "nvidia-ml-py",
    "cupti-python",
)
_VARIABLES = re.compile(
    r"(CUDA|CUPTI|CUBLAS|CUDNN|NVCC|NCCL|NVSHMEM|UCX|OMP|GOMP|KMP|MKL|OPENBLAS|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|VLLM"
    r"|XLA|JAX|SLURM|RUNNER)_[A-Z0-9_]+|CC|CXX|LD_PRELOAD|LD_LIBRARY_PATH"
    r"|NVIDIA_(VISIBLE_DEVICES|TF32_OVERRIDE|DRIVER_CAPABILITIES)"
)
"""Variables that can change a measurement; every other one stays unrecorded."""
_SECRET_WORD = re.compile(r"PASSW|SECRET|CREDENTIAL|(TOKEN|PASS|KEY)S?$|_(AUTH|COOKIE|DSN|PAT|JWT)$")
"""What variables of a shell are called, beyond the keys of a config; rather too much than too little."""
_NOT_SECRET = frozenset({"PWD", "OLDPWD"})
"""Folders of a shell."""


def collect(project: Path, *, device: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A fresh dict of plain JSON values; the machine and the checkout are looked at once per process.

    ``device``: the open device's ``DeviceInfo`` as a dict (its ``driver``, ``cuda`` and ``uuid`` also
    appear at the top level). ``git_commit`` is empty and ``git_dirty`` None outside a git checkout;
    ``git_diff_bytes`` and ``git_diff_sha256`` belong to ``commit.uncommitted`` and are there where something differs.
    """
    found = copy.deepcopy(_fixed(project.resolve()))
    device = dict(device or {})
    found["variables"] = variables(os.environ)
    found["driver"] = device.get("driver", "")
    found["cuda"] = device.get("cuda", "")
    found["device_uuid"] = device.get("uuid", "")
    found["device"] = device
    return found


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The allow-listed variables, without any that looks like a credential, sorted."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if _VARIABLES.fullmatch(name) and not is_secret(name, value)
    }


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential: by a word of its name, or a user in a URL of its value."""
    if redact_uri(value) != value:
        return True
    return name not in _NOT_SECRET and (is_secret_key(name) or bool(_SECRET_WORD.search(name.upper())))


@lru_cache(maxsize=8)
def _fixed(project: Path) -> dict[str, Any]:
    return {
        **_code(project),
        "os": _os_name(),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "python": platform.python_version(),
        "hostname": platform.node(),
        "user": _user(),
        "cpu": _cpu_model(Path("/proc/cpuinfo")),
        "cores": os.cpu_count() or 0,
        "cores_usable": _usable_cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "packages": _packages(),
    }


def _code(project: Path) -> dict[str, Any]:
    found = commit.checkout(project)
    values: dict[str, Any] = {"git_commit": found.commit, "git_branch": found.branch, "git_dirty": found.dirty}
    difference = commit.uncommitted(project).encode()
    if difference:
        values["git_diff_bytes"] = len(difference)
        values["git_diff_sha256"] = hashlib.sha256(difference).hexdigest()
    return values


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a passwd entry
        return str(os.getuid())


def _cpu_model(cpuinfo: Path) -> str:
    """The model's name; ARM kernels give none there, so the architecture stands in."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _usable_cores() -> int:
    """Cores this process may run on: a job scheduler or container often grants fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _packages() -> dict[str, str]:
    """Versions of those installed."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
