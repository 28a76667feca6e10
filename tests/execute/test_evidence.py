"""What a command's results share: compilers and their commands, files of evidence, and failures that cost nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.backend import topology
from runner.build import cuda, host
from runner.build.model import BuildRequest, CompileError, Program
from runner.cli import main
from runner.execute import evidence
from runner.result import commit
from tests.execute.test_sweep import FAMILIES, QUICK, results, run

NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.48\nBuild cuda_13.0\n"


def program(backend: Any, *command: str) -> Program:
    request = BuildRequest("/src/kv.cu", backend, "sm_90a" if backend == "cuda" else "", "main")
    return Program(request, Path("/cache/x"), command, "", True, 0.0)


def experiment(*programs: Program, **values: Any) -> Any:
    """As much of an experiment as is looked at."""
    made = {"requests": {one.request.unit: one.request for one in programs}, "devices": (), **values}
    return SimpleNamespace(**made)


def test_nvcc_and_its_host_compiler_are_named_where_they_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "compiler", lambda: "/cuda/bin/nvcc")
    monkeypatch.setattr(cuda, "versions", lambda nvcc: (NVCC, "g++ (Debian 12.2.0-14) 12.2.0\nCopyright\n"))
    made = program("cuda", "nvcc", "-cubin", "-DURL=http://ada:s3cret@host/", "/src/a b.cu")
    found = evidence.compilation(experiment(made), {made.request: made})
    assert found == {
        "nvcc": "13.0.48",
        "host_compiler": "g++ (Debian 12.2.0-14) 12.2.0",
        "compile_commands": {"main": "nvcc -cubin -DURL=http://ada:***@host/ '/src/a b.cu'"},
    }


def test_on_the_cpu_no_nvcc_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "compiler", lambda: host.HostCompiler("/usr/bin/g++", "g++ 12.2.0"))
    made = program("host", "g++", "-O3")
    found = evidence.compilation(experiment(made), {made.request: made})
    assert found == {"nvcc": "", "host_compiler": "g++ 12.2.0", "compile_commands": {"main": "g++ -O3"}}


def test_what_did_not_compile_has_no_command() -> None:
    made = program("cuda", "nvcc")
    found = evidence.compilation(experiment(made), {made.request: CompileError("no")})
    assert found == {"nvcc": "", "host_compiler": "", "compile_commands": {}}


def test_topology_is_kept_for_gpus_and_the_difference_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "text", lambda: "GPU0 X\n")
    monkeypatch.setattr(commit, "uncommitted", lambda project: "+x\n")
    on_cpu, on_gpu = (experiment(devices=(SimpleNamespace(backend=name),)) for name in ("host", "cuda"))
    evidence.keep(tmp_path / "cpu", [on_cpu])
    evidence.keep(tmp_path / "both", [on_cpu, on_gpu])
    assert [path.name for path in (tmp_path / "cpu" / "evidence").iterdir()] == ["uncommitted.diff"]
    assert (tmp_path / "both" / "evidence" / "topology.txt").read_text() == "GPU0 X\n"


def test_a_clean_checkout_on_the_cpu_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "uncommitted", lambda project: "")
    evidence.keep(tmp_path, [experiment()])
    assert list(tmp_path.iterdir()) == []


def test_a_result_says_how_it_was_compiled(tmp_path: Path) -> None:
    done = run(tmp_path, "kernel=faulty", *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = results(tmp_path)
    environment = result["environment"]
    assert environment["host_compiler"] == host.compiler().version
    assert environment["nvcc"] == ""
    assert "main" in environment["compile_commands"]
    assert environment["compile_commands"]["main"].startswith(host.compiler().path)
    assert not {"gpu_state", "gpu_state_before", "topology"} & set(environment)


def test_evidence_that_cannot_be_written_costs_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commit, "uncommitted", lambda project: "+x\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "evidence").write_text("a file where the folder should be")
    code = main(["--config-dir", str(FAMILIES), "kernel=faulty", *QUICK, "hydra.run.dir=out"])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "no evidence: cannot write" in said
    assert list((tmp_path / "out").glob("*/result.json"))
