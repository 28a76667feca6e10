"""Which code it was: the commit, and what of the checkout differs from it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.config.secrets import MASK, is_secret_key, redact_text

FILE_NAME = "uncommitted.diff"
LIMIT_BYTES = 200_000
"""Of the difference that is kept; what lies beyond is cut off, and the file says so."""
_MOST_NAMES = 200
"""Untracked files that are named."""
_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Set within a git hook; they would point git at another repository than the one asked about."""
_TIMEOUT_S = 20.0

_PRIVATE = re.compile(
    r"(^|/)(\.env(\..+)?|\.netrc|\.pgpass|\.npmrc|\.pypirc|id_(rsa|dsa|ecdsa|ed25519)|.*\.(pem|key|p12|pfx|jks|kdbx))$"
    r"|(^|/)[^/]*(credential|secret)[^/]*$",
    re.IGNORECASE,
)
"""Files whose contents are never kept."""
_TOKENS = re.compile(
    r"\b(gh[opsu]_|github_pat_|glpat-|hf_|sk-|xox[abprs]-|AKIA|dapi|AIza|eyJ)[A-Za-z0-9_\-.]{12,}"
    r"|(?<=Bearer )[A-Za-z0-9_\-.=+/]{12,}"
)
"""Credentials that are known by their beginning."""
_ASSIGNED = re.compile(r"""([A-Za-z_][\w\-]*)(["']?\s*[:=]\s*)(["'][^"']{4,}["']|[A-Za-z0-9_\-+/=.~!$%^&*]{12,})""")
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Checkout:
    """Empty outside a git checkout, and where git is missing."""

    commit: str = ""
    branch: str = ""
    dirty: bool | None = None
    """Whether any tracked file differs or an untracked one is there; None = unknown."""
    untracked: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def checkout(project: Path) -> Checkout:
    """One call of git per process."""
    done = _git(project, "status", "--porcelain=v2", "--branch", "--untracked-files=normal")
    if done is None:
        return Checkout()
    lines = done.decode(errors="replace").splitlines()
    heads = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    commit = heads.get("branch.oid", "")
    return Checkout(
        commit="" if commit == "(initial)" else commit,
        branch=heads.get("branch.head", ""),
        dirty=any(not line.startswith("#") for line in lines),
        untracked=tuple(line[2:] for line in lines if line.startswith("? ")),
    )


def commit_of(project: Path, name: str) -> str:
    """The hash of the commit that git knows under a name (a tag, a branch, ``HEAD~3``); empty where it knows none."""
    if not name or name.startswith("-"):
        return ""
    done = _git(project, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return done.decode(errors="replace").strip() if done else ""


@lru_cache(maxsize=8)
def uncommitted(project: Path) -> str:
    """How the tracked files differ from the commit (``git diff HEAD``), at most ``LIMIT_BYTES`` and free of what looks
    like a credential, after the names of untracked files; empty when nothing differs. Looked at once per process."""
    found = checkout(project)
    if not found.dirty:
        return ""
    lines = [f"# commit {found.commit or 'none yet'}"]
    lines += [f"# untracked: {name}" for name in found.untracked[:_MOST_NAMES]]
    if len(found.untracked) > _MOST_NAMES:
        lines.append(f"# and {len(found.untracked) - _MOST_NAMES} more untracked")
    difference = _git(project, "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv") or b""
    if len(difference) > LIMIT_BYTES:
        whole = hashlib.sha256(difference).hexdigest()
        lines.append(f"# cut off: the first {LIMIT_BYTES} of {len(difference)} bytes, SHA-256 of the whole {whole}")
        difference = difference[:LIMIT_BYTES].rpartition(b"\n")[0]
    return "\n".join([*lines, redacted(difference.decode(errors="replace"))]).rstrip("\n") + "\n"


def redacted(difference: str) -> str:
    """A difference without credentials: files that hold them are only named, and within others the values of what is
    called so, and what begins as well-known tokens do, are masked."""
    parts = re.split(r"(?m)^(?=diff --git )", difference)
    return "".join(_redacted_file(part) for part in parts)


def _redacted_file(part: str) -> str:
    head, _, _ = part.partition("\n")
    named = re.match(r'diff --git "?a/(.*?)"? "?b/(.*?)"?$', head)
    if named and any(_PRIVATE.search(name) for name in named.groups()):
        return f"{head}\n# not kept: a file of this name may hold credentials\n"
    part = _KEY_BLOCK.sub(f"-----PRIVATE KEY {MASK}-----", part)
    part = _ASSIGNED.sub(_masked, part)
    return redact_text(_TOKENS.sub(lambda match: (match[1] or "") + MASK, part))


def _masked(match: re.Match[str]) -> str:
    name, between, value = match.groups()
    quoted = value[0] in "\"'"
    if not is_secret_key(name) or not (quoted or re.search(r"\d", value)):
        return match[0]
    return name + between + (value[0] + MASK + value[-1] if quoted else MASK)


def _git(project: Path, *arguments: str) -> bytes | None:
    """What git prints; None where it is missing, fails or hangs."""
    environment = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    # Without the variable, git may take the index lock, and a commit made meanwhile would fail.
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    command: Sequence[str] = ["git", "-C", str(project), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
