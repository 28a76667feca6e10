"""A config as a result keeps it, made a ``Config`` again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.config.dump import config_yaml, plain_config
from runner.config.errors import ConfigError
from runner.config.schema import Config
from runner.config.stored import restored
from runner.config.study import expand
from runner.paths import conf_dir
from tests.test_studies import composer

URI = "sqlite:////tmp/somewhere.db"


def composed(*lines: str) -> Config:
    return expand(composer(), ["gpu=host", f"tracking.uri={URI}", *lines], sweep=False).points[0].config


def whole(config: Config) -> dict[str, Any]:
    found = yaml.safe_load(config_yaml(config))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("family", ["kv_quant", "mini_llm", "estimate", "collectives"])
def test_what_was_run_comes_back(family: str) -> None:
    config = composed(f"kernel={family}", "seed=7", "scale=smoke", "environment.A='x \\${C}'")
    for document, described in ((whole(config), True), (plain_config(config), False)):
        made = restored(document, URI, {}, [conf_dir()])
        assert made.config == config
        assert (made.described, made.changed, made.supplied) == (described, (), ())


def test_option_files_that_have_changed_since_count_only_where_the_result_says_nothing(tmp_path: Path) -> None:
    config = composed("kernel=kv_quant", "kernel.params.D=64")
    text = (conf_dir() / "kernel" / "kv_quant.yaml").read_text(encoding="utf-8")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "kv_quant.yaml").write_text(text + "samples: 77\n", encoding="utf-8")

    made = restored(whole(config), URI, {}, [tmp_path, conf_dir()])
    assert (made.config, made.changed) == (config, ("samples",))
    made = restored(plain_config(config), URI, {}, [tmp_path, conf_dir()])
    assert (made.config.kernel.samples, made.config.kernel.params["D"]) == (77, 64)

    gone = restored(whole(config), URI, {}, [tmp_path / "nothing"])
    assert gone.config == config and "launches" not in gone.changed and "variants" in gone.changed
    with pytest.raises(ConfigError, match="kernel=kv_quant: the result does not describe it"):
        restored(plain_config(config), URI, {}, [tmp_path / "nothing"])


def test_keys_that_are_younger_than_the_result_have_their_defaults() -> None:
    document = whole(composed("kernel=kv_quant"))
    del document["measure"]["hide_latency"], document["sanitize"]
    made = restored(document, URI, {}, [conf_dir()])
    assert made.config.measure.hide_latency is True and made.config.sanitize is False


SECRET = ("kernel=kv_quant", "environment.HF_TOKEN=hf_123456", "environment.PLAIN=1")
PROGRAM = ("kernel=command", "command.argv=[prog,--api-key,abc]")


def test_a_secret_comes_from_the_environment_or_is_refused() -> None:
    config = composed(*SECRET)
    document = whole(config)
    assert "hf_123456" not in str(document)
    made = restored(document, URI, {"HF_TOKEN": "hf_123456"}, [conf_dir()])
    assert (made.config, made.supplied) == (config, ("environment.HF_TOKEN",))
    with pytest.raises(ConfigError, match=r"^environment\.HF_TOKEN: .* set HF_TOKEN here"):
        restored(document, URI, {}, [conf_dir()])
    with pytest.raises(ConfigError, match=r"^command\.argv\[2\]=\*\*\*: "):
        restored(whole(composed(*PROGRAM)), URI, {}, [conf_dir()])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measure": {"warmup": "many"}}, "does not fit this runner: .*warmup"),
        ({"nonsense": 1}, "does not fit this runner: .*nonsense"),
        ({"kernel": {}}, "kernel.name is missing"),
        ({"timeout_s": -1.0}, "timeout_s=-1.0: must be above 0"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    document = whole(composed("kernel=kv_quant"))
    with pytest.raises(ConfigError, match=message):
        restored({**document, **change}, URI, {}, [conf_dir()])
