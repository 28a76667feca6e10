"""Where results are filed: a tracking URI understood, made absolute, and never shown with its password."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from runner.paths import project_dir

DATABASES = ("postgresql", "mysql", "mssql")
ALLOWED = "sqlite:///<file>, http(s)://<host>:<port>, or postgresql://, mysql://, mssql:// of a database"

Kind = Literal["sqlite", "database", "server"]


class TrackingUnavailable(RuntimeError):
    """Results cannot be filed now; one line that says why and what to do. Nothing is lost: they lie on disk."""


@dataclass(frozen=True)
class Location:
    """One tracking store."""

    uri: str
    """Absolute, with its password: for the client's eyes only."""
    kind: Kind
    artifacts: str = ""
    """Absolute folder of artifacts; empty for a server, which keeps its own."""

    @property
    def shown(self) -> str:
        """The URI without its password, for messages, tags and files."""
        from runner.config.secrets import redact_uri

        return redact_uri(self.uri)

    @property
    def database(self) -> Path:
        """The file of a SQLite store."""
        return Path(self.uri.removeprefix("sqlite:///"))

    @property
    def endpoint(self) -> tuple[str, int] | None:
        """Host and port a connection must reach; None for SQLite and where the URI does not say."""
        parts = urlsplit(self.uri)
        ports = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
        port = parts.port or ports.get(parts.scheme.split("+")[0])
        return (parts.hostname, port) if self.kind != "sqlite" and parts.hostname and port else None

    def scrub(self, text: str) -> str:
        """``text`` (of an exception, say) without this store's password in any spelling."""
        from runner.config.secrets import redact_text

        parts = urlsplit(self.uri)
        cleaned = redact_text(text.replace(self.uri, self.shown))
        secrets = {parts.password, unquote(parts.password or "")}
        if "@" in parts.netloc:
            secrets.add(parts.netloc.rsplit("@", 1)[0])
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            cleaned = cleaned.replace(secret, "***")
        return cleaned


def locate(uri: str = "", project: Path | None = None, artifacts: str = "") -> Location:
    """The store ``uri`` names; an empty one is ``<project>/mlruns/mlflow.db`` with ``mlruns/artifacts`` beside it.

    ``project`` is the checkout (or, installed, the working folder) when None; relative SQLite paths are taken from
    there. Raises ``TrackingUnavailable`` for a URI that MLflow cannot use.
    """
    root = (project or project_dir()).absolute()
    if not uri:
        uri = f"sqlite:///{root / 'mlruns' / 'mlflow.db'}"
    scheme = _scheme(uri)
    if scheme == "sqlite":
        name = uri.split(":///", 1)[1] if ":///" in uri else ""
        if not name:
            raise TrackingUnavailable("tracking.uri names no file: write sqlite:///<file>")
        database = root / name
        return Location(f"sqlite:///{database}", "sqlite", artifacts or str(database.parent / "artifacts"))
    if scheme in DATABASES:
        return Location(uri, "database", artifacts or str(root / "mlruns" / "artifacts"))
    if scheme in ("http", "https") and urlsplit(uri).hostname:
        return Location(uri.rstrip("/"), "server")
    named = Location(uri, "server").shown
    raise TrackingUnavailable(f"tracking.uri={named} cannot be used; allowed: {ALLOWED}")


def _scheme(uri: str) -> str:
    """``postgresql`` of ``postgresql+psycopg2://…``; empty for what is no URI."""
    try:
        parts = urlsplit(uri)
        _ = parts.port  # reading it is what checks it
    except ValueError:  # a bad port, an unclosed bracket
        return ""
    return parts.scheme.split("+")[0] if "://" in uri else ""
