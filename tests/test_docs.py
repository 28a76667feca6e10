"""The documentation says only what exists: links, config keys, options, files, targets, variables and commands."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from runner import cli
from runner.config.schema import Config

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("runner", "conf", "cuda_src", "docs", "tests", "benchmarks", "experiments", "hydra_plugins", ".ci")
SECTIONS = {field.name for field in dataclasses.fields(Config)}
GROUPS = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()} - {"hydra"} | {"experiments"}
INVENTED = {"kernel": {"rms_norm"}, "shape": {"mine"}, "experiments": {"kv_batches"}}
"""Options that a page has its reader write."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_KEY = re.compile(r"(?<![\w./-])\+?([a-z_]+(?:\.[A-Za-z_<>][\w<>]*)+)")
_CHOICE = re.compile(r"(?<![\w./-])([a-z]+)=([A-Za-z0-9_<>,]+)")


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_page = pytest.mark.parametrize("page", PAGES, ids=ids)


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def code(page: Path) -> list[str]:
    """Everything on the page that is set as code, one entry per span or line of a shell block."""
    blocks = [text for language, text in _FENCE.findall(page.read_text(encoding="utf-8")) if language == "bash"]
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [entry for entry in [*_SPAN.findall(prose(page)), *lines] if entry]


def commands() -> dict[str, list[str]]:
    """Every complete ``python -m runner …`` that is set as code, and its arguments."""
    lines = [line for page in PAGES for line in code(page) if line.startswith("python -m runner ")]
    return {line: shlex.split(line)[3:] for line in lines if "<" not in line}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings(target)]
            assert anchor in slugs, f"{page.name} links to {link}; {target.name} has {slugs}"


def headings(page: Path) -> list[str]:
    return _HEADING.findall(prose(page))


@each_page
def test_config_keys_exist(page: Path) -> None:
    for entry in code(page):
        for key in _KEY.findall(entry):
            if key.split(".")[0] in SECTIONS and not entry.startswith(("runner/", "profile.")):
                assert key_exists(key), f"{page.name} quotes {key} (in '{entry}'), which the schema does not have"


def key_exists(key: str) -> bool:
    kind: Any = Config
    for part in key.split("."):
        if dataclasses.is_dataclass(kind):
            hints = get_type_hints(kind)
            if part not in hints:
                return False
            kind = hints[part]
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            return kind is Any
    return True


@each_page
def test_options_exist(page: Path) -> None:
    for entry in code(page):
        for group, options in _CHOICE.findall(entry):
            for option in options.split(",") if group in GROUPS and "<" not in options else []:
                assert (
                    (ROOT / "conf" / group / f"{option}.yaml").is_file()
                    or (ROOT / group / f"{option}.yaml").is_file()
                    or option in INVENTED.get(group, ())
                ), f"{page.name} quotes {group}={option} (in '{entry}')"


def test_readme_names_options_that_exist() -> None:
    rows = re.findall(r"^\| `([a-z]+)` \|.*\| ([^|]+) \|$", prose(ROOT / "README.md"), re.MULTILINE)
    assert {group for group, _ in rows} == GROUPS
    for group, listed in rows:
        folder = ROOT / group if group == "experiments" else ROOT / "conf" / group
        there = {path.stem for path in folder.glob("*.yaml")}
        assert set(_SPAN.findall(listed)) <= there, f"README lists options of {group}: {listed}"


@each_page
def test_files_exist(page: Path) -> None:
    for entry in code(page):
        for word in entry.split():
            path = word.rstrip(".,:")
            if path.startswith(tuple(f"{folder}/" for folder in FOLDERS)) and not re.search(r"[<>*…]", path):
                assert (ROOT / path).exists(), f"{page.name} quotes {path}"


@each_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for entry in code(page):
        quoted = re.match(r"make(?: ([a-z-]+))?(?=$| )", entry)
        if quoted and quoted[1]:
            assert quoted[1] in targets, f"{page.name} quotes '{entry}'"


@each_page
def test_variables_exist(page: Path) -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "runner").rglob("*.py"))
    for entry in code(page):
        for variable in re.findall(r"RUNNER_[A-Z_]+", entry):
            assert f'"{variable}"' in sources, f"{page.name} quotes {variable}"


@pytest.fixture
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with what the pages have their reader write."""
    monkeypatch.chdir(tmp_path)
    write_family(tmp_path)
    (tmp_path / "my_options" / "shape").mkdir(parents=True)
    (tmp_path / "my_options" / "shape" / "mine.yaml").write_text(
        block("configuration.md", "my_options/shape/mine.yaml")
    )
    return tmp_path


def block(page: str, name: str) -> str:
    """The code block that follows the first mention of the file ``name``."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = _FENCE.search(text, text.index(f"`{name}`:"))
    assert found is not None
    return found[2]


def write_family(folder: Path) -> None:
    """The family that docs/adding-a-kernel.md builds."""
    for name in ("kernel/rms_norm.yaml", "cuda_src/rms_norm.cu", "references/rms_norm.py"):
        path = folder / "my_kernels" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block("adding-a-kernel.md", f"my_kernels/{name}"), encoding="utf-8")


@pytest.mark.parametrize("line", commands())
def test_commands_compose(line: str, user_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word.replace("/abs/path", str(user_folders)) for word in commands()[line]]
    if not {"--help", "--cfg"} & set(words):
        words.append("dry_run=true")
    assert cli.main(words) == 0, capsys.readouterr().err


def test_study_of_the_page_composes(user_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    found = _FENCE.search(page, page.index("`experiments/<name>.yaml`"))
    assert found is not None
    (user_folders / "my_options" / "experiments").mkdir()
    (user_folders / "my_options" / "experiments" / "kv_batches.yaml").write_text(found[2], encoding="utf-8")
    assert cli.main(["--config-dir", "my_options", "experiments=kv_batches", "dry_run=true", "-m"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n#") + shown.startswith("#") == 6, shown
    assert shown.count("more than 65,536 tokens in the cache") == 2


def test_family_of_the_page_passes(user_folders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--config-dir", "my_kernels", "kernel=rms_norm", "scale=smoke", "gpu=host", "tracking=none"]
    assert cli.main([*words, "measure=fixed", "measure.fixed=2"]) == 0, capfd.readouterr()
    assert "2 results: 2 passed" in capfd.readouterr().out
