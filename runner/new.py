"""``python -m runner.new kernel=<name> [dir=<folder>]``: the three files of a new family, which run and pass.

Without ``dir`` they go into this checkout; with it into a folder of your own, to be used with ``--config-dir``.
Nothing that exists is overwritten.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from runner.exit_codes import PASSED, REFUSED
from runner.paths import PACKAGE, project_dir

USAGE = "usage: python -m runner.new kernel=<name> [dir=<folder>]"
TEMPLATES = PACKAGE / "template"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files and says what to run; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "-h" in words or "--help" in words:
        print(__doc__)
        return PASSED
    try:
        name, folder = _parse(words)
        written = write(name, folder)
    except ValueError as error:
        print(f"error: {error}\n{USAGE}", file=sys.stderr)
        return REFUSED
    except OSError as error:
        print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return REFUSED
    for path in written:
        print(f"wrote {path}")
    where = f"--config-dir {folder} " if folder else ""
    print(f"run it: python -m runner {where}kernel={name}")
    return PASSED


def write(name: str, folder: Path | None = None) -> list[Path]:
    """The family's source, description and reference. Raises ``ValueError`` when one of them exists already."""
    places = _places(name, folder)
    for path in places.values():
        if path.exists():
            raise ValueError(f"kernel={name}: {path} exists already; choose another name")
    reference = f"reference: {name}.py\n" if folder else ""
    for template, path in places.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("REFERENCE", reference).replace("NAME", name), encoding="utf-8")
    return list(places.values())


def _places(name: str, folder: Path | None) -> dict[str, Path]:
    if folder is not None:
        source, description, reference = folder / "cuda_src", folder / "kernel", folder / "references"
    else:
        root = project_dir()
        if not (root / "cuda_src").is_dir():
            raise ValueError("dir: this is an installed package, not a checkout; say where with dir=<folder>")
        source, description, reference = root / "cuda_src", root / "conf" / "kernel", root / "runner" / "references"
    return {
        "family.cu": source / f"{name}.cu",
        "family.yaml": description / f"{name}.yaml",
        "family.py.txt": reference / f"{name}.py",
    }


def _parse(words: Sequence[str]) -> tuple[str, Path | None]:
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in ("kernel", "dir") or not equals or not value:
            raise ValueError(f"{word}: known are kernel=<name> and dir=<folder>")
        values[key] = value
    name = values.get("kernel", "")
    if not _NAME.fullmatch(name):
        raise ValueError(f"kernel={name}: a name of lower-case letters, digits and underscores, a letter first")
    return name, Path(values["dir"]).absolute() if "dir" in values else None


if __name__ == "__main__":
    sys.exit(main())
