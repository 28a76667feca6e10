"""Imports follow the flow: the table of docs/architecture.md, held against the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = {"paths", "exit_codes", "streams"}
"""Modules beside the rooms that every room may use."""

LOADED = {
    "pycuda": ("backend/cuda/",),
    "cupti": ("backend/cuda/",),
    "pynvml": ("backend/nvml.py",),
    "mlflow": ("record/mlflow_store.py",),
    "sqlalchemy": ("record/tables.py", "record/database.py"),
    "pyarrow": ("record/columns.py", "record/exported.py"),
    "submitit": ("launch/slurm.py",),
    "ray": ("launch/ray_cluster.py",),
    "matplotlib": ("report/",),
    "plotly": ("report/",),
    "gguf": ("weights/",),
    "tokenizers": ("weights/",),
}
"""Heavy package → where the page says that it is loaded."""


def table() -> dict[str, set[str]]:
    """Room → the rooms it may import, in the order of the page."""
    allowed: dict[str, set[str]] = {}
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room, names in re.findall(r"^\| `runner/(\w+)/` \|.*\| ([^|]+) \|$", page, re.MULTILINE):
        allowed[room] = set(allowed) if "all above" in names else set(re.findall(r"\w+", names.split("(")[0]))
    return allowed


def imported(file: Path) -> set[str]:
    """Rooms and top-level modules of ``runner`` that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "runner":
            names = [f"runner.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("runner.")}
    return found


def loaded(tree: ast.Module) -> dict[str, bool]:
    """Package that a file loads → whether it does so as soon as it is imported itself. What is there for the checker of
    types alone does not count."""
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    unloaded = {id(node) for block in blocks for node in ast.walk(block)}
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
        for name in names if id(node) not in unloaded else ():
            package = name.partition(".")[0]
            found[package] = found.get(package, False) or node in tree.body
    return found


def test_heavy_packages_are_loaded_where_the_page_says_and_only_when_needed() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for places in LOADED.values():
        assert all(f"`{place}`" in page for place in places), places
    for file in sorted((ROOT / "runner").rglob("*.py")):
        here = file.relative_to(ROOT / "runner").as_posix()
        for package, at_once in loaded(ast.parse(file.read_text(encoding="utf-8"))).items():
            if package in LOADED:
                assert here.startswith(LOADED[package]), f"{here} loads {package}"
                assert not at_once, f"{here} loads {package} as soon as it is imported"


def test_the_table_names_every_room() -> None:
    rooms = {path.parent.name for path in (ROOT / "runner").glob("*/__init__.py")}
    assert set(table()) == rooms


@pytest.mark.parametrize("room", table())
def test_a_room_imports_what_the_table_allows_and_nothing_else(room: str) -> None:
    used: set[str] = set()
    for file in sorted((ROOT / "runner" / room).rglob("*.py")):
        against = imported(file) - {room} - SHARED - table()[room]
        assert not against, f"{file.relative_to(ROOT)} imports {', '.join(sorted(against))}: see docs/architecture.md"
        used |= imported(file)
    if room not in ("execute", "launch"):
        assert table()[room] <= used, f"the table allows {room} what it does not use"


def test_no_room_is_imported_before_its_own_line() -> None:
    seen: set[str] = set()
    for room, allowed in table().items():
        assert allowed <= seen, f"{room} stands above {', '.join(sorted(allowed - seen))}"
        seen.add(room)
