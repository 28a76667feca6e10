"""What a program wrote, filed beside its result without the secrets it was given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.config.secrets import MASK, redact_text, secrets_of
from runner.result.document import write_text
from runner.result.environment import is_secret

LARGEST = 4 << 20
"""Characters kept of one stream over all runs; each run is kept within ``runner.program.output.KEPT`` as well."""
_SHORTEST = 6
"""A secret shorter than this may be an ordinary word, and is not looked for in the output."""


class Logs:
    """Collects the output of several runs."""

    def __init__(self, environment: Mapping[str, str], arguments: Sequence[str] = ()) -> None:
        """``environment``: what the program is given beside the runner's own. ``arguments``: its and its load's."""
        known = {**os.environ, **environment}
        values = {value for name, value in known.items() if len(value) >= _SHORTEST and is_secret(name, value)}
        values |= {value for value in secrets_of(arguments) if len(value) >= _SHORTEST}
        self._secrets = sorted(values, key=len, reverse=True)
        self._texts: dict[str, list[str]] = {}
        self._titles: list[str] = []

    def add(self, title: str, stdout: str, stderr: str) -> None:
        """One run's output; ``title`` stands above it where there are several."""
        self._titles.append(title)
        self._texts.setdefault("stdout.txt", []).append(stdout)
        self._texts.setdefault("stderr.txt", []).append(stderr)

    def add_server(self, stdout: str, stderr: str) -> None:
        """The output of the server that was under load."""
        self._texts["server_stdout.txt"] = [stdout]
        self._texts["server_stderr.txt"] = [stderr]

    def write(self, folder: Path) -> None:
        """One file per stream that anything was written to. Raises ``DocumentError``."""
        for name, texts in self._texts.items():
            if any(texts):
                write_text(folder / name, self.hidden(self._joined(texts)))

    def hidden(self, text: str) -> str:
        """``text`` with the values of secret variables and arguments and passwords in URIs masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return redact_text(text)

    def _joined(self, texts: list[str]) -> str:
        if len(texts) == 1:
            return texts[0]
        parts: list[str] = []
        room = LARGEST
        for title, text in zip(self._titles, texts, strict=True):
            if room < len(text):
                parts.append(f"== {title}: left out, the runs before wrote enough ==\n")
                continue
            room -= len(text)
            parts.append(f"== {title} ==\n{text}" + ("" if text.endswith("\n") or not text else "\n"))
        return "".join(parts)
