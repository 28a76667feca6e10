"""Each slip of the user gives one message: the key, the value, what is allowed, the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from runner.config.compose import Composer
from runner.config.errors import ConfigError, choose_from, from_exception, nearest
from runner.config.study import expand

SLIPS = [
    ("shap=decode", "no such key or group 'shap'; did you mean 'shape'?"),
    ("kernal.params.B=1", "no such key or group 'kernal'; did you mean 'kernel'?"),
    ("experiment=x", "did you mean 'experiments'?"),
    ("shape=deocde", "shape=deocde: no such option; did you mean 'decode'? known: bound, decode"),
    ("model=lama3_8b", "model=lama3_8b: no such option; did you mean 'llama3_8b'?"),
    ("shape=3", "shape=3: no such option; known: bound, decode"),
    ("gpu=null", "gpu=null: no such option"),
    (
        "shape.contxt=1",
        "shape.contxt=1: no such key 'shape.contxt'; did you mean 'shape.context'? known: name",
    ),
    ("kernel.params.Z=1", "kernel.params.Z=1: no such key 'kernel.params.Z'; known: B, T, H, D, S"),
    ("kernel.params.mod=1", "did you mean 'kernel.params.mode'?"),
    ("measure.host.min_sample=1", "did you mean 'measure.host.min_samples'?"),
    ("gpu.tflops.int2=1", "(a new one is added with +gpu.tflops.int2=…)"),
    ("shape.batch.x=1", "'shape.batch' is one value and has no keys below it"),
    ("shape.batch=abc", "shape.batch=abc: must be an integer"),
    ("shape.batch=1.5", "shape.batch=1.5: must be an integer"),
    ("shape.batch=null", "shape.batch=null: must be an integer, not null"),
    ("dry_run=maybe", "dry_run=maybe: must be true or false"),
    ("timeout_s=long", "timeout_s=long: must be a number"),
    ("variants=fp32", "variants=fp32: must be a list, e.g. variants=[fp32]"),
    ("devices=0", "devices=0: must be a list, e.g. devices=[0]"),
    ("devices=null", "devices=null: must be a list of integers"),
    ("devices={a:1}", "devices={a:1}: must be a list of integers"),
    ("environment=[a]", "environment=[a]: must be keys with values, e.g. environment.<name>=<value>"),
    ("environment=3", "environment=3: must be keys with values, e.g. environment.<name>=<value>"),
    ("kernel.params=[1]", "kernel.params=[1]: 'kernel.params' has keys of its own; set those: "),
    ("devices=abc", "devices=abc: must be a list of integers"),
    ("devices=[a]", "devices=[a]: must be a list of integers"),
    ("devices=[0,true]", "devices=[0,true]: must be a list of integers"),
    ("measure.host=5", "measure.host=5: 'measure.host' has keys of its own; set those: modes, min_samples"),
    ("measure.host=[1]", "measure.host=[1]: 'measure.host' has keys of its own; set those: modes, min_samples"),
    ("measure.host={a:1}", "measure.host={a:1}: no such key 'measure.host.a'; known: modes, min_samples"),
    ("study={gate:{max_slow:1}}", "no such key 'study.gate.max_slow'; did you mean 'study.gate.max_slowdown'?"),
    ("measure.modes={a:1}", "measure.modes={a:1}: must be a list of words"),
    ("measure.modes=[null]", "measure.modes=[null]: must be a list of words"),
    ("variants={a:1}", "variants={a:1}: must be a list of words"),
    ("+shape.foo=1", "'foo' is not one of its keys; known: name, batch"),
    ("+foo=1", "nothing can be added to the root"),
    ("~shape.foo", "'shape.foo' does not exist"),
    ("shape.context=${shape.nope}", "shape.context: cannot be resolved"),
    ("shape.context=???", "shape.context: has no value; give one with shape.context=…"),
]


@pytest.mark.parametrize(("line", "message"), SLIPS)
def test_a_slip(composer: Composer, line: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        expand(composer, ["kernel=toy", line], sweep=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_several_values_without_a_sweep(composer: Composer) -> None:
    with pytest.raises(ConfigError, match=r"shape.batch=1,2: several values; add -m to sweep over them"):
        expand(composer, ["kernel=toy", "shape.batch=1,2"], sweep=False)


@pytest.mark.parametrize("line", ["tracking.ur=http://u:hunter2@h", "tracking.uri.x=http://u:hunter2@h"])
def test_messages_hold_no_secret(composer: Composer, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        expand(composer, ["kernel=toy", line], sweep=False)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("name: broken\n  batch: [1\n", r"broken\.yaml"), ("name: broken\ncontxt: 5\n", "shape/broken.*contxt")],
)
def test_a_file_that_cannot_be_read(loader: ConfigLoaderImpl, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "broken.yaml").write_text(text)
    composer = Composer(loader, [f"hydra.searchpath=[file://{tmp_path}]"])
    with pytest.raises(ConfigError, match=message):
        expand(composer, ["shape=broken"], sweep=False)


def test_nearest() -> None:
    assert nearest("Decod", ["decode", "prefill"]) == "decode"
    assert nearest("zzz", ["decode"]) == ""
    assert nearest("b", ["B", "T"]) == "B"


def test_long_lists_are_left_out_when_one_name_is_near() -> None:
    names = [f"option_{number}" for number in range(40)]
    assert choose_from("option_7x", names) == "did you mean 'option_7'?"
    assert "option_39" in choose_from("zzz", names)


def test_other_exceptions_become_one_line_without_secrets() -> None:
    error = from_exception(ValueError("first\n  cannot open http://u:hunter2@h\n"))
    assert str(error) == "first cannot open http://u:***@h"
