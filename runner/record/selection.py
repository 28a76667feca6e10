"""Which runs are meant: words of a command line, ``kernel=kv_quant commit=1a2b3c4,5d6e7f8 after=30d``, as one value."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from runner.config.errors import choose_from
from runner.paths import project_dir
from runner.record.filed import Filed
from runner.result import clock
from runner.result.commit import commit_of
from runner.result.model import Quality, Status

COMMIT = "git_commit"
_PARAMS = ("variant", "model", "shape", "gpu", "backend")
"""Keys that are parameters of a run under the same name."""
_TAGS = {"status": "status", "quality": "quality", "sweep": "sweep_id", "study": "study", "host": "host"}
KEYS = ("kernel", *_PARAMS, *_TAGS, "commit", "run", "after", "before")
"""What a command line can say; beside them ``param.<name>`` and ``tag.<name>``."""
_AGE = re.compile(r"(\d+(?:\.\d+)?)([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 24 * 7}
_SHORTEST_COMMIT = 4
_MOST_QUERIES = 20


@dataclass(frozen=True)
class Selection:
    """Runs for which every part that is given holds; of several values of a part one suffices."""

    kernels: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    """Run ids."""
    params: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    commits: tuple[str, ...] = ()
    """Beginnings of hashes."""
    after: int = 0
    """Started at or after, milliseconds since 1970; 0 = any time."""
    before: int = 0
    """Started before, as ``after``."""

    def holds(self, run: Filed) -> bool:
        """Whether a run is meant; its family is not looked at, since a run does not always say it."""
        return (
            (not self.runs or run.run_id in self.runs)
            and all(run.params.get(key) in values for key, values in self.params.items())
            and all(run.tags.get(key) in values for key, values in self.tags.items())
            and (not self.commits or run.tags.get(COMMIT, "").startswith(self.commits))
            and run.started >= self.after
            and (not self.before or run.started < self.before)
        )


def select(options: Mapping[str, str], now: datetime | None = None) -> Selection:
    """What ``key=value`` words say. Raises ``ValueError`` with one line that names the key and what is allowed."""
    now = now or datetime.now(timezone.utc)
    params: dict[str, tuple[str, ...]] = {}
    tags: dict[str, tuple[str, ...]] = {}
    plain: dict[str, tuple[str, ...]] = {}
    for key, text in options.items():
        values = tuple(part.strip() for part in text.split(","))
        if not all(values):
            raise ValueError(f"{key}={text}: a value is missing")
        head, _, rest = key.partition(".")
        if head == "param" and rest:
            params[rest] = values
        elif head == "tag" and rest:
            tags[rest] = values
        elif key in _PARAMS:
            params[key] = values
        elif key in _TAGS:
            tags[_TAGS[key]] = _checked(key, values)
        elif key in KEYS:
            plain[key] = values
        else:
            raise ValueError(unknown(key, KEYS))
    return Selection(
        kernels=plain.get("kernel", ()),
        runs=plain.get("run", ()),
        params=params,
        tags=tags,
        commits=_commits(plain.get("commit", ())),
        after=_time("after", plain.get("after", ()), now),
        before=_time("before", plain.get("before", ()), now),
    )


def pairs(words: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """``key=value`` words, each key once; ``known`` are those of the command beside the selection's. Raises
    ``ValueError``."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word}: write key=value")
        if key not in (*known, *KEYS) and not key.startswith(("param.", "tag.")):
            raise ValueError(unknown(key, (*known, *KEYS)))
        if not value:
            raise ValueError(f"{key}=: a value is missing")
        if key in found:
            raise ValueError(f"{word}: {key} is given twice; several values are joined by commas")
        found[key] = value
    return found


def flag(key: str, text: str, default: bool) -> bool:
    """What ``true`` or ``false`` stands for, and empty for the default. Raises ``ValueError``."""
    if text and text not in ("true", "false"):
        raise ValueError(f"{key}={text}: must be true or false")
    return text == "true" if text else default


def unknown(key: str, known: Sequence[str]) -> str:
    """The line for a key that there is not."""
    return f"{key}: no such key; {choose_from(key, (*known, 'param.<name>', 'tag.<name>'))}"


def queries(selection: Selection) -> list[str]:
    """What to ask MLflow's search: together they find all runs that are meant, no run twice, and perhaps more.

    Its language has no "or": a part with several values is asked for one by one, as long as that stays few questions.
    A quote cannot be written in it.
    """
    fixed = []
    if selection.after:
        fixed.append(f"attributes.start_time >= {selection.after}")
    if selection.before:
        fixed.append(f"attributes.start_time < {selection.before}")
    if selection.runs and not _quoted(selection.runs):
        fixed.append(f"attributes.run_id IN ({', '.join(map(repr, selection.runs))})")
    axes: list[list[str]] = []
    for kind, wanted in (("params", selection.params), ("tags", selection.tags)):
        for key, values in wanted.items():
            if not _quoted((key, *values)):
                axes.append([f"{kind}.`{key}` = '{value}'" for value in dict.fromkeys(values)])
    # Of two beginnings one may be the other's: the same runs would be found twice.
    begins = [
        one for one in selection.commits if not any(one != two and one.startswith(two) for two in selection.commits)
    ]
    if begins:
        axes.append([f"tags.{COMMIT} LIKE '{begin}%'" for begin in dict.fromkeys(begins)])
    axes.sort(key=len)
    while axes and math.prod(map(len, axes)) > _MOST_QUERIES:
        axes.pop()
    return [" and ".join([*fixed, *parts]) for parts in itertools.product(*axes)]


def _quoted(words: Sequence[str]) -> bool:
    return any("'" in word or "`" in word for word in words)


def _checked(key: str, values: tuple[str, ...]) -> tuple[str, ...]:
    kinds: dict[str, list[str]] = {"status": [s.value for s in Status], "quality": [q.value for q in Quality]}
    for value in values:
        if key in kinds and value not in kinds[key]:
            raise ValueError(f"{key}={value}: no such {key}; {choose_from(value, kinds[key])}")
    return values


def _commits(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_hash, values))


def _hash(value: str) -> str:
    if re.fullmatch(rf"[0-9a-fA-F]{{{_SHORTEST_COMMIT},40}}", value):
        return value.lower()
    if found := commit_of(project_dir(), value):
        return found
    raise ValueError(
        f"commit={value}: must be {_SHORTEST_COMMIT} to 40 hexadecimal digits of a commit's hash, or a name of a "
        "commit that git knows here"
    )


def _time(key: str, values: tuple[str, ...], now: datetime) -> int:
    """Milliseconds since 1970 of a time or of an age; 0 where none is given."""
    if not values:
        return 0
    text = ",".join(values)
    try:
        if age := _AGE.fullmatch(text):
            moment = now - timedelta(hours=float(age[1]) * _HOURS[age[2]])
        else:
            moment = clock.read(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return max(1, int(moment.timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{key}={text}: must be a time in UTC (2026-01-31 or 2026-01-31T12:00), or an age (12h, 30d, 8w)"
        ) from None
