"""Reading kernel sources as text: what they include, which entry points they have.

Answers are kept per file and modification time: looking at an unchanged source costs a few ``stat`` calls.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runner.build.model import CompileError

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\.)*", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_ENTRY = re.compile(r'extern\s*"C"\s*__global__\b')
_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)((?:[^\\\n]|\\.)*)", re.MULTILINE | re.DOTALL)
_BOUNDS = ("__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__attribute__")
"""What may stand before a kernel's name with its own parentheses."""


@dataclass(frozen=True)
class SourceFile:
    """What a compilation needs to know about one file."""

    digest: str
    """SHA-256 of the content."""
    includes: tuple[tuple[bool, str], ...]
    """(in quotes, name) of every ``#include``, also of one in an untaken ``#if``."""
    entry_points: tuple[str, ...]


def entry_points(source: Path) -> tuple[str, ...]:
    """Names of the ``extern "C" __global__`` functions written in ``source``.

    Raises ``CompileError`` when the file is missing, unreadable, or has none.
    """
    names = read_source(source).entry_points
    if not names:
        raise CompileError(
            f"{source} has no entry point",
            advice='Write each kernel as: extern "C" __global__ void name(...), not inside extern "C" { } '
            "and not as a template.",
        )
    return names


def closure(source: Path, roots: tuple[Path, ...]) -> dict[Path, str]:
    """``source`` and every file it includes, transitively, with the SHA-256 of each.

    A quoted name is looked for beside the including file and then in ``roots``, one in angle brackets in
    ``roots`` only. Names found in neither are the compiler's own headers; its version stands for them.
    """
    found: dict[Path, str] = {}
    waiting = [source]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        file = read_source(path)
        found[path] = file.digest
        for quoted, name in file.includes:
            places = (path.parent, *roots) if quoted else roots
            hit = next((place / name for place in places if (place / name).is_file()), None)
            if hit is not None:
                waiting.append(hit.resolve())
    return found


def read_source(path: Path) -> SourceFile:
    """Reads ``path``, or answers from memory when neither its time nor its size has changed."""
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise CompileError(f"cannot read {path}: {error.strerror}") from error


@lru_cache(maxsize=4096)
def _read(path: Path, mtime_ns: int, size: int) -> SourceFile:
    content = path.read_bytes()
    text = _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", content.decode(errors="replace"))
    return SourceFile(
        digest=hashlib.sha256(content).hexdigest(),
        includes=tuple((mark == '"', name) for mark, name in _INCLUDE.findall(text)),
        entry_points=tuple(_entry_points(_expand(_DIRECTIVE.sub("", text), _macros(text)))),
    )


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...]
    body: str

    def __call__(self, arguments: list[str]) -> str:
        values = dict(zip(self.parameters, arguments, strict=False))
        filled = re.sub(r"\w+", lambda word: values.get(word[0], word[0]), self.body)
        return re.sub(r"\s*##\s*", "", filled)


def _macros(text: str) -> dict[str, _Macro]:
    """Function-like macros of a file, by name."""
    return {
        name: _Macro(tuple(one.strip() for one in parameters.split(",")), body.replace("\\\n", "\n"))
        for name, parameters, body in _MACRO.findall(text)
    }


def _expand(text: str, macros: dict[str, _Macro], depth: int = 8) -> str:
    """``text`` with the file's own macros expanded: families of kernels are often written as one."""
    if not macros or not depth:
        return text
    call = re.compile(r"\b(" + "|".join(map(re.escape, macros)) + r")\s*\(")
    pieces: list[str] = []
    position = 0
    while match := call.search(text, position):
        end = _closing(text, match.end())
        arguments = [one.strip() for one in text[match.end() : end - 1].split(",")]
        pieces += [text[position : match.start()], macros[match[1]](arguments)]
        position = end
    expanded = "".join(pieces) + text[position:]
    return _expand(expanded, macros, depth - 1) if pieces else expanded


def _entry_points(text: str) -> list[str]:
    """Entry points in ``text``, which has neither comments nor preprocessor lines."""
    names: list[str] = []
    for entry in _ENTRY.finditer(text):
        position = entry.end()
        while match := _NAME.search(text, position):
            if match[1] not in _BOUNDS:
                if match[1] not in names:  # a declaration and its definition
                    names.append(match[1])
                break
            position = _closing(text, match.end())
    return names


def _closing(text: str, position: int) -> int:
    """Position after the parenthesis that closes the one opened just before ``position``."""
    depth = 1
    while depth and position < len(text):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
    return position
