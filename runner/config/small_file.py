"""Reading a file that a user names, whatever it is: never more of it than such a file has."""

from __future__ import annotations

from pathlib import Path

from runner.config.errors import ConfigError


def content(path: Path, where: str, limit: int, wanted: str, usual: str = "") -> bytes:
    """The bytes of ``path``, at most ``limit``. ``where``: what the user named it with.

    Raises ``ConfigError`` for what is no file, saying what is ``wanted``; for one that cannot be read; and for one that
    is larger, saying what is ``usual``.
    """
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ConfigError(f"{where}: no such file: {wanted}")
        with path.open("rb") as stream:
            raw = stream.read(limit + 1)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror or error}") from error
    if len(raw) > limit:
        raise ConfigError(f"{where}: larger than {limit} bytes{usual and f': {usual}'}")
    return raw
