"""Keeps passwords and tokens out of everything that is printed or written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from omegaconf import OmegaConf

MASK = "***"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,30}://")
_BARE = re.compile(r"^[^\s/:@?#]+:[^\s]+@[^\s@]+$")
"""``user:password@host`` without a scheme."""
_SECRET_KEY = re.compile(
    r"(^|[_\-])((password|passwd|passphrase|pwd|secret|credentials?|bearer|authorization|cookie"
    r"|(api|access|private|account|storage|encryption)[_\-]?key)([_\-]|$)|(auth|token|signature|sig)$)",
    re.IGNORECASE,
)
_SECRET_FOLDER = re.compile(r"^(credentials?|secrets?)$", re.IGNORECASE)
_OPTION = re.compile(r"^(--?)?([A-Za-z][\w.\-]*)=(.+)$", re.DOTALL)
"""``--api-key=…``, ``TOKEN=…``."""
_FLAG = re.compile(r"^--?[A-Za-z][\w\-]*$")
_LISTED_FLAG = re.compile(r"""(--?[A-Za-z][\w\-]*),\s*("[^"]*"|'[^']*'|[^\],\s]+)""")
_SHELL_PAIR = re.compile(
    r"""((?<!\S)--?[A-Za-z][\w\-]*(?:=|\s+(?!-))|(?<![\w\-])[A-Za-z_]\w*=)("[^"]*"|'[^']*'|[^\s"';|&]+)"""
)
"""``--flag value``, ``--flag=value`` and ``NAME=value`` in a shell's line."""
_USER_FLAGS = ("-u", "--user", "--proxy-user")
"""What curl and its kin take ``user:password`` by."""
_QUOTES = "\"'"
_BEARER = re.compile(r"(\bbearer\s+)([^\s\"']+)", re.IGNORECASE)
_QUERY = re.compile(r"([?&;#])([^=&;#\s?]+)=([^&;#\s]*)")


def is_secret_key(key: str) -> bool:
    """Whether the last part of a dotted key names a credential: ``MLFLOW_TRACKING_TOKEN``, ``db.password``."""
    return _SECRET_KEY.search(_words(unquote(key).rsplit(".", 1)[-1])) is not None


def redact_uri(uri: str) -> str:
    """``scheme://user:password@host/?token=…`` with what is secret masked; other text comes back unchanged.

    Passwords need not be percent-encoded: where a user part exists, everything up to the last ``@`` belongs to it,
    so that too much rather than too little is masked. A user part without a password may be a token: masked too.
    """
    found = _SCHEME.search(uri)
    if found is None:
        return re.sub(r":.*@", f":{MASK}@", uri, count=1) if _BARE.match(uri) else _redact_query(uri)
    head, rest = uri[: found.end()], uri[found.end() :]
    if _has_user(rest):
        user, host = rest.rsplit("@", 1)
        name, colon, _ = user.partition(":")
        rest = f"{name}:{MASK}@{host}" if colon else f"{MASK}@{host}"
    return head + _redact_query(rest)


def redact_text(text: str) -> str:
    """Free text (a message, a command line): every word that is or holds a URI is redacted."""
    return re.sub(r"\S+", lambda word: _redact_word(word.group()), text)


def redact_argv(argv: Sequence[str]) -> list[str]:
    """A program's arguments: the value of ``--api-key VALUE``, ``--api-key=VALUE`` and ``TOKEN=VALUE`` is masked, and
    what is secret in a URI, behind ``Bearer`` or in ``-u user:password``."""
    return _masked(argv)[0]


def secrets_of(argv: Sequence[str]) -> set[str]:
    """The arguments, or parts of them, that ``redact_argv`` masks: what the program may print is compared with them."""
    return _masked(argv)[1]


def _masked(argv: Sequence[str]) -> tuple[list[str], set[str]]:
    shown: list[str] = []
    hidden: set[str] = set()
    before = ""
    masked = False
    for word in argv:
        option = _OPTION.match(word)
        user, colon, password = word.partition(":")
        if masked and word and not _FLAG.match(word):
            hidden.add(word)
            shown.append(MASK)
        elif option and is_secret_key(option[2]):
            hidden.add(option[3])
            shown.append(f"{option[1] or ''}{option[2]}={MASK}")
        elif before in _USER_FLAGS and colon and password:
            hidden.add(password)
            shown.append(f"{user}:{MASK}")
        else:
            # A word with spaces may be a line for a shell: ``bash -c "curl --token …"``.
            text, within = _masked_line(word) if " " in word else (redact_text(word), set[str]())
            hidden |= within
            shown.append(text)
        masked = bool(_FLAG.match(word)) and is_secret_key(word.lstrip("-"))
        before = word
    return shown, hidden


def redact_shell(line: str) -> str:
    """A shell's command line, as ``redact_argv``."""
    return _masked_line(line)[0]


def _masked_line(line: str) -> tuple[str, set[str]]:
    hidden: set[str] = set()

    def mask(match: re.Match[str]) -> str:
        name, value = match.groups()
        user, colon, password = value.strip(_QUOTES).partition(":")
        if name.strip("= ") in _USER_FLAGS and colon and password:
            hidden.add(password)
            return f"{name}{user}:{MASK}"
        if is_secret_key(name.strip("-= ")):
            hidden.add(value.strip(_QUOTES))
            return f"{name}{MASK}"
        return match[0]

    hidden.update(match[2] for match in _BEARER.finditer(line))
    return _BEARER.sub(rf"\1{MASK}", redact_text(_SHELL_PAIR.sub(mask, line))), hidden


def redact_overrides(overrides: Sequence[str]) -> list[str]:
    """Override lines (``tracking.uri=…``) that may be shown, still valid in Hydra's grammar."""
    return [_redact_override(line) for line in overrides]


def redact_config(value: Any, key: str = "") -> Any:
    """A plain copy of a config (or any part of one) without its secrets.

    ``value`` is a ``DictConfig``, a container or a scalar; interpolations stay as they are written.
    """
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, Mapping):
        folder = _SECRET_FOLDER.match(key) is not None
        return {
            name: MASK if folder and isinstance(item, str) and item else redact_config(item, str(name))
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, str) for item in value) and not is_secret_key(key):
            return redact_argv(value)
        return [redact_config(item, key) for item in value]
    if isinstance(value, str) and value and key == "shell":
        return redact_shell(value)
    if isinstance(value, str) and value:
        return MASK if is_secret_key(key) else redact_uri(value)
    return value


def _words(name: str) -> str:
    """``accessToken`` → ``access_Token``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def _has_user(rest: str) -> bool:
    """Whether what follows ``scheme://`` starts with a user part."""
    if "@" not in rest:
        return False
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        return True
    # No '@' before the first slash: a host with a port, or a password that holds a slash.
    _, colon, port = authority.rpartition(":")
    if not colon or (authority.startswith("[") and authority.endswith("]")):
        return False
    return not port.isdigit() or "@" in re.split(r"[?#]", rest, maxsplit=1)[0]


def _redact_query(text: str) -> str:
    def mask(match: re.Match[str]) -> str:
        mark, name, value = match.groups()
        return f"{mark}{name}={MASK if value and is_secret_key(name) else value}"

    return _QUERY.sub(mask, text)


def _redact_word(word: str) -> str:
    found = _SCHEME.search(word)
    start = word[: found.start()] if found else ""
    return start + redact_uri(word[len(start) :])


def _mask_listed(match: re.Match[str]) -> str:
    """The value after a flag in a list of a sweep."""
    flag, value = match.groups()
    return f"{flag},'{MASK}'" if is_secret_key(flag.lstrip("-")) else f"{flag},{value}"


def _redact_override(line: str) -> str:
    key, equals, value = line.partition("=")
    if not equals or not value:
        return line
    if is_secret_key(key.lstrip("+~")):
        return f"{key}={MASK}"
    # Hydra's parser is slow to import, and only this function needs it.
    from runner.config.grammar import element, parse_value

    parsed = parse_value(line)
    if isinstance(parsed, (str, list, dict)):
        masked = redact_config(parsed, key.rpartition(".")[2])
        return line if masked == parsed else f"{key}={element(masked)}"
    # Not one plain value (a sweep, or not in the grammar): as text, everything in it that looks like a URI.
    if key.rpartition(".")[2] == "shell":
        return f"{key}={redact_shell(value)}"
    masked_text = _LISTED_FLAG.sub(_mask_listed, ",".join(redact_text(part) for part in value.split(",")))
    return f"{key}={masked_text}"
