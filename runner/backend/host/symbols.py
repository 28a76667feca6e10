"""Static shared memory of a sanitized program, found in its symbol table.

Contents of shared memory do not survive a block on a GPU, but a static variable does here: a value left by an earlier
block would hide a missing barrier. So sanitized programs overwrite these variables before every block, and their
places come from the ELF symbol table: variables of functions are named ``_ZZ…``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

_SYMTAB = 2
_OBJECT = 1
_NOBITS = 8
"""Type of the section of zero-initialised variables: shared memory has no initial value."""


@dataclass(frozen=True)
class Variable:
    name: str
    offset: int
    """From the address at which the library is loaded."""
    nbytes: int


def static_shared(path: Path, anchor: str) -> tuple[int, list[Variable]]:
    """(offset of the function ``anchor``, zero-initialised variables of functions) of a 64-bit ELF library.

    Empty for other formats: nothing is overwritten there.
    """
    content = path.read_bytes()
    if content[:6] != b"\x7fELF\x02\x01":
        return 0, []
    (sections_at,) = struct.unpack_from("<Q", content, 0x28)
    (count,) = struct.unpack_from("<H", content, 0x3C)
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, sections_at + 64 * index) for index in range(count)]
    found: list[Variable] = []
    anchored = 0
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names_at = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name_at, info, _, index, value, size = struct.unpack_from("<IBBHQQ", content, at)
            end = content.index(b"\0", names_at + name_at)
            name = content[names_at + name_at : end].decode(errors="replace")
            if name == anchor:
                anchored = value
            elif info & 15 == _OBJECT and name.startswith("_ZZ") and index < count and sections[index][1] == _NOBITS:
                found.append(Variable(name, value, size))
    return anchored, found
