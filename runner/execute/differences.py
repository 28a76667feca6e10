"""What differs between the code and the machine of two results, or of a result and of now, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Environment = Mapping[str, Any]
"""``Result.environment``, or the part of it that is known before anything runs."""


def same_code(then: Environment, now: Environment) -> bool:
    """The same commit with the same uncommitted changes; False where a commit is unknown."""
    keys = ("git_commit", "git_dirty", "git_diff_sha256")
    return bool(then.get("git_commit")) and all(then.get(key) == now.get(key) for key in keys)


def differences(then: Environment, now: Environment) -> list[str]:
    """A line for each that differs of commit, uncommitted changes, GPU, driver, compilers and packages; for the
    fingerprint where none of them does. What one of the two does not know is left out."""
    found = [*_code(then, now), *_devices(then, now)]
    for key, name in (("driver", "driver"), ("cuda", "CUDA"), ("nvcc", "nvcc"), ("host_compiler", "host compiler")):
        found += _changed(name, then.get(key), now.get(key))
    found += _changed("Python", then.get("python"), now.get("python"))
    found += _packages(then, now)
    if not found and then.get("fingerprint") and now.get("fingerprint") != then["fingerprint"] and "fingerprint" in now:
        found.append("fingerprint: the source, its options, the measuring code or a file that is read has changed")
    return found


def _code(then: Environment, now: Environment) -> list[str]:
    found = _changed("commit", _short(then.get("git_commit")), _short(now.get("git_commit")))
    if then.get("git_dirty") is None or now.get("git_dirty") is None:
        return found
    if then["git_dirty"] != now["git_dirty"]:
        had, has = ("with" if one["git_dirty"] else "without" for one in (then, now))
        found.append(f"uncommitted changes: {had} then, {has} now")
    elif then.get("git_diff_sha256") != now.get("git_diff_sha256"):
        found.append("uncommitted changes: other ones than then")
    return found


def _devices(then: Environment, now: Environment) -> list[str]:
    """By name; of the same name, by identity."""
    old, new = _listed(then), _listed(now)
    if not old or not new:
        return []
    names, uuids = ([[one.get(key) for one in side] for side in (old, new)] for key in ("name", "uuid"))
    if names[0] != names[1]:
        return _changed("device", ", ".join(map(str, names[0])), ", ".join(map(str, names[1])))
    if uuids[0] != uuids[1]:
        return [f"device: another {names[0][0]} than then ({uuids[0][0]}, now {uuids[1][0]})"]
    return []


def _listed(environment: Environment) -> list[Mapping[str, Any]]:
    devices = environment.get("devices")
    return [one for one in devices if isinstance(one, Mapping)] if isinstance(devices, list) else []


def _packages(then: Environment, now: Environment) -> list[str]:
    old, new = then.get("packages"), now.get("packages")
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return []
    return [
        line
        for name in dict.fromkeys([*old, *new])
        for line in _changed(f"package {name}", old.get(name, "none"), new.get(name, "none"))
    ]


def _changed(name: str, then: Any, now: Any) -> list[str]:
    return [f"{name}: {then} then, {now} now"] if then and now and then != now else []


def _short(commit: Any) -> str:
    return str(commit or "")[:12]
