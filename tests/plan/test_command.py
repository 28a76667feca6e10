"""A program as a plan: where it is looked for, what is refused, what is filed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runner.config.schema import Command, Config, Kernel, Model, Ready, Shape
from runner.plan.command import make_command_plan
from runner.plan.errors import PlanError
from runner.plan.model import Plan, Target


def planned(*overrides: str, general: dict[str, str] | None = None, **fields: Any) -> Plan:
    config = Config(
        kernel=Kernel(name="command", kind="command", phase="program", baseline=""),
        command=Command(**{"argv": [sys.executable, "-V"], **fields}),
        environment=general or {},
    )
    config.model, config.shape = Model(name="llama3_8b"), Shape(name="decode")
    return make_command_plan(config, Target("host"), overrides)


def test_the_plan_of_a_program() -> None:
    plan = planned()
    assert plan.command is not None
    assert plan.command.argv == (sys.executable, "-V")
    assert plan.command.folder == str(Path.cwd())
    assert [variant.name for variant in plan.variants] == [Path(sys.executable).name]
    assert plan.baseline == "" and plan.variants[0].bytes_moved == 0


def test_its_own_environment_wins_over_the_general_one() -> None:
    plan = planned(general={"A": "1", "B": "1"}, environment={"B": "2"})
    assert plan.command is not None and plan.command.environment == {"A": "1", "B": "2"}


def test_programs_are_found_on_the_path_and_in_the_folder(weird_path: Path) -> None:
    tool = weird_path / "my tool.sh"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    for fields in (
        {"argv": ["my tool.sh"], "environment": {"PATH": str(weird_path)}},
        {"argv": ["./my tool.sh"], "folder": str(weird_path)},
        {"argv": [str(tool)]},
    ):
        plan = planned(**fields)
        assert plan.command is not None
        assert Path(plan.command.argv[0]) == tool
        assert plan.variants[0].name == "my-tool.sh"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    plan = planned(argv=[str(link)])
    assert plan.command is not None and plan.command.argv == (str(link),)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"argv": ["no-such-tool"], "environment": {"PATH": "/a:/b"}}, "'no-such-tool' on the PATH; searched: /a, /b"),
        ({"argv": ["./no-such-tool"]}, "there is no program "),
        ({"argv": ["/"]}, "/ is no executable file"),
        ({"argv": [__file__]}, "test_command.py is no executable file: name its interpreter"),
        ({"folder": "/no/such"}, "command.folder=/no/such: there is no folder /no/such"),
        ({"load": ["no-such-tool"], "ready": Ready(port=1)}, "command.load=[no-such-tool,…]"),
    ],
)
def test_what_is_not_there_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned(**fields)
    assert words in str(caught.value)


def test_a_shell_only_where_it_was_asked_for() -> None:
    plan = planned(argv=[], shell="HF_TOKEN=hunter2 bench | tail -1")
    assert plan.command is not None
    assert plan.command.shell and plan.command.argv == ("/bin/sh", "-c", "HF_TOKEN=hunter2 bench | tail -1")
    assert plan.command.shown == "HF_TOKEN=*** bench | tail -1"


def test_a_server_has_one_sign() -> None:
    plan = planned(ready=Ready(url="http://127.0.0.1:1/", timeout_s=5), load=["true"])
    assert plan.command is not None and plan.command.ready is not None
    assert (plan.command.ready.kind, plan.command.ready.value) == ("url", "http://127.0.0.1:1/")


def test_groups_count_where_they_were_chosen() -> None:
    assert (planned().model, planned().shape) == ("", "")
    chosen = planned("kernel=command", "model=llama3_8b", "shape.batch=2")
    assert (chosen.model, chosen.shape) == ("llama3_8b", "decode")


def test_what_a_sweep_varies_becomes_a_parameter() -> None:
    lines = ("kernel=command", "shape.batch=2", "+command.environment.A=x", "command.repeat=3", "command.argv=[a]")
    params = planned(*lines).params
    assert params == {"argv": f"{sys.executable} -V", "batch": 2, "A": "x", "repeat": 3}


@pytest.mark.parametrize(("given", "name"), [("", "sh"), ("decode-1", "decode-1")])
def test_its_runs_have_a_name(given: str, name: str) -> None:
    assert planned(argv=["sh"], name=given).variants[0].name == name
