"""Passwords and tokens: in URIs of every kind, in keys that name a credential, in whole configs."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from runner.config.grammar import line_of, parse_value
from runner.config.secrets import (
    is_secret_key,
    redact_argv,
    redact_config,
    redact_overrides,
    redact_shell,
    redact_text,
    redact_uri,
    secrets_of,
)

PASSWORDS = [
    "hunter2",
    "p%40ss%2Fword",
    "p@ss/w@rd",
    "a:b:c",
    "ab/cd",
    "q?x=1#y",
    "sp ace",
    "quo'te\"s",
    "ünïcode",
    "{[(,=)]}",
    "$HOME",
    "back\\slash",
]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://alice:{}@db.example:5432/mlflow",
        "postgresql+psycopg2://alice:{}@db.example/mlflow?sslmode=require",
        "https://alice:{}@mlflow.example/api",
        "http://{}@mlflow.example:5000",
    ],
)
def test_the_user_part_of_a_uri(uri: str, password: str) -> None:
    if uri.startswith("http://{}") and set(password) & set("/?#"):
        pytest.skip("without a name before it, such a token reads as a host and a path")
    redacted = redact_uri(uri.format(password))
    assert password not in redacted
    assert "***@" in redacted and redacted.split("@")[-1] == uri.split("@")[-1]


@pytest.mark.parametrize("name", ["token", "password", "api_key", "access-key", "secret", "auth_token", "pass%77ord"])
@pytest.mark.parametrize("mark", ["?", "?a=b&", "?a=b;", "#"])
def test_the_query_of_a_uri(name: str, mark: str) -> None:
    redacted = redact_uri(f"http://host:5000/path{mark}{name}=s3cr3t%21&z=1")
    assert "s3cr3t" not in redacted
    assert redacted.startswith("http://host:5000/path") and redacted.endswith(f"{name}=***&z=1")


@pytest.mark.parametrize(
    "harmless",
    [
        "",
        "sqlite:////home/me/mlruns/mlflow.db",
        "http://127.0.0.1:5000",
        "http://[::1]:5000/path",
        "http://host:5000/?page=2&max_tokens=5",
        "http://host/path/@scope/package",
        "http://host:80/users?mail=a@b.example",
        "git@github.com:owner/repo",
        "shape.context",
        "B * T",
    ],
)
def test_what_is_harmless_stays(harmless: str) -> None:
    assert redact_uri(harmless) == harmless


def test_a_bare_user_and_password() -> None:
    assert redact_uri("alice:hunter2@host/db") == "alice:***@host/db"


def test_every_secret_of_a_text() -> None:
    text = "cannot reach http://u:pw1@h1/x or 'postgresql://v:pw2@h2' (see http://h3?token=pw3)"
    redacted = redact_text(text)
    assert all(secret not in redacted for secret in ("pw1", "pw2", "pw3"))
    assert redacted.startswith("cannot reach http://u:***@h1/x or 'postgresql://v:***@h2'")


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "db.password",
        "environment.MLFLOW_TRACKING_TOKEN",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "apiKey",
    ],
)
def test_keys_that_name_a_credential(key: str) -> None:
    assert is_secret_key(key)


@pytest.mark.parametrize("key", ["max_tokens", "token_rate", "author", "kv_heads", "keys", "MLFLOW_TRACKING_USERNAME"])
def test_keys_that_do_not(key: str) -> None:
    assert not is_secret_key(key)


@pytest.mark.parametrize("password", PASSWORDS)
def test_overrides_stay_valid_without_their_secret(password: str) -> None:
    lines = [
        line_of("tracking.uri", f"http://u:{password}@host:5000"),
        line_of("+environment.MLFLOW_TRACKING_PASSWORD", password),
        line_of("+environment", {"MLFLOW_TRACKING_TOKEN": password, "OMP_NUM_THREADS": "2"}),
        "shape.context=4096",
    ]
    redacted = redact_overrides(lines)
    assert all(password not in line for line in redacted)
    assert parse_value(redacted[0]) == "http://u:***@host:5000"
    assert redacted[1] == "+environment.MLFLOW_TRACKING_PASSWORD=***"
    assert parse_value(redacted[2]) == {"MLFLOW_TRACKING_TOKEN": "***", "OMP_NUM_THREADS": "2"}
    assert redacted[3] == lines[3]


def test_overrides_that_are_a_sweep_or_not_in_the_grammar() -> None:
    lines = [
        "tracking.uri=http://u:pw1@h,http://v:pw2@h",
        "tracking.uri=choice(http://u:pw3@h)",
        "x=http://u:p=w4@h",
    ]
    shown = " ".join(redact_overrides(lines))
    assert not any(secret in shown for secret in ("pw1", "pw2", "pw3", "p=w4"))


def test_a_config_loses_its_secrets_and_nothing_else() -> None:
    config = {
        "tracking": {"uri": "postgresql://u:hunter2@h/db", "every_s": 30.0, "token": "hunter2"},
        "environment": {"API_KEY": "hunter2", "OMP_NUM_THREADS": "2"},
        "credentials": {"user": "hunter2"},
        "urls": ["http://u:hunter2@h"],
        "kernel": {"report": {"token_rate": "B * H"}, "buffers": {"token": {"dims": ["B"]}}},
        "seed": 0,
        "variants": None,
    }
    redacted = redact_config(OmegaConf.create(config))
    assert "hunter2" not in repr(redacted)
    assert redacted["kernel"] == config["kernel"]
    assert redacted["environment"]["OMP_NUM_THREADS"] == "2"
    assert redacted["tracking"]["every_s"] == 30.0 and redacted["variants"] is None


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="@?#"), min_size=4, max_size=20))
def test_no_password_survives(secret: str) -> None:
    redacted = redact_uri(f"postgresql://user:{secret}@host.example/db")
    assert redacted == "postgresql://user:***@host.example/db"


@pytest.mark.parametrize(
    "argv",
    [
        ["p", "--api-key", "hunter2"],
        ["p", "--api-key=hunter2", "-x"],
        ["env", "HF_TOKEN=hunter2", "p"],
        ["curl", "-H", "Authorization: Bearer hunter2"],
        ["p", "http://user:hunter2@host/x"],
    ],
)
def test_arguments_that_are_secret_are_masked_wherever_they_are_shown(argv: list[str]) -> None:
    shown = [repr(redact_argv(argv)), repr(redact_config({"command": {"argv": argv}}))]
    shown += redact_overrides([line_of("command.argv", argv)])
    shown.append(redact_shell(shlex.join(argv)))
    assert not [text for text in shown if "hunter2" in text]


def test_ordinary_arguments_stay() -> None:
    argv = ["p", "--max-tokens", "64", "--prompt", "what is a token?", "--max_new=4", "--temperature=0.8", "a:b", "-k"]
    assert redact_argv(argv) == argv
    assert redact_shell("p --max-tokens 64 | grep 'x = 1' > out") == "p --max-tokens 64 | grep 'x = 1' > out"


def test_a_sweep_of_arguments_is_masked() -> None:
    (shown,) = redact_overrides(["command.argv=[p,--api-key,hunter2],[p,--api-key,'hunter2 x']"])
    assert "hunter2" not in shown and shown.startswith("command.argv=[p,--api-key,")


def test_long_words_are_searched_quickly() -> None:
    begin = time.monotonic()
    assert redact_text("x" * 200_000) == "x" * 200_000
    assert redact_text("x" * 200_000 + "://u:hunter2@h").endswith("://u:***@h")
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("key", ["command.shell", "++command.shell"])
@pytest.mark.parametrize("quoted", [True, False])
def test_the_line_of_a_shell_is_masked_as_an_override(key: str, quoted: bool) -> None:
    line = "curl -H 'Authorization: Bearer hunter2' -u bob:hunter2 http://h/ --password hunter2; API_KEY=hunter2 p"
    value = f'"{line}"' if quoted else f"{line},{line}"
    (shown,) = redact_overrides([f"{key}={value}"])
    assert "hunter2" not in shown
    assert shown.startswith(f"{key}=") and "-u bob:***" in shown


def test_what_is_masked_among_arguments_can_be_looked_for_elsewhere() -> None:
    argv = [
        "p",
        "--token",
        "a1",
        "--api-key=b2",
        "C_TOKEN=c3",
        "-u",
        "bob:d4",
        "-H",
        "Authorization: Bearer e5",
        "-u",
        "x",
    ]
    assert secrets_of(argv) == {"a1", "b2", "c3", "d4", "e5"}
    assert redact_argv(argv)[-6:-2] == ["-u", "bob:***", "-H", "Authorization: Bearer ***"]


def test_a_line_for_a_shell_among_the_arguments_is_masked_too() -> None:
    argv = ["bash", "-c", "curl --token 'a1' -u bob:b2 http://h/ -H 'X: Bearer c3'; API_KEY=d4 p --max-tokens 64"]
    assert secrets_of(argv) == {"a1", "b2", "c3", "d4"}
    assert (
        redact_argv(argv)[2]
        == "curl --token *** -u bob:*** http://h/ -H 'X: Bearer ***'; API_KEY=*** p --max-tokens 64"
    )
