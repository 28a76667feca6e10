"""An option that was not composed, read from its file: a user's own may be wrong in every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.config.errors import ConfigError
from runner.config.option_file import option, typed_option
from runner.config.schema import Model


def test_the_own_keys_win_over_a_part(tmp_path: Path) -> None:
    (tmp_path / "model" / "parts").mkdir(parents=True)
    (tmp_path / "model" / "parts" / "p.yaml").write_text("layers: 1\nheads: 2\n")
    (tmp_path / "model" / "m.yaml").write_text("defaults: [parts/p@_here_, _self_]\nname: m\nheads: 3\n")
    assert option([tmp_path], "model", "m") == {"layers": 1, "heads": 3, "name": "m"}
    assert option([tmp_path], "model", "other") is None
    found = typed_option([tmp_path], "model", "m", Model)
    assert found is not None and (found.heads, found.experts) == (3, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [m", r"m\.yaml: cannot be read: .*expected ',' or '\]'"),
        ("defaults: [parts/p@_here_, _self_]", r"m\.yaml: defaults: there is no parts/p\.yaml in model/"),
        ("[name, m]", r"m\.yaml: must hold keys and values, not a list"),
        ("hiden: 1", "model=m: Key 'hiden' not in 'Model'"),
        ("hidden: wide", "model=m: Value 'wide' .* could not be converted to Integer"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "m.yaml").write_text(text + "\n")
    with pytest.raises(ConfigError, match=said) as refused:
        typed_option([tmp_path], "model", "m", Model)
    assert "\n" not in str(refused.value)
