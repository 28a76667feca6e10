"""Fitted constants as a file: what ``python -m runner.calibrate`` writes and ``estimate.efficiency=<file>`` reads."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runner.config.errors import ConfigError, choose_from
from runner.estimate.model import Efficiency

RANGES: dict[str, tuple[float, float]] = {
    "bandwidth": (0.0, 1.0),
    "compute": (0.0, 1.0),
    "layer_us": (0.0, 1e6),
    "all_reduce_us": (0.0, 1e6),
    "sequence_us": (0.0, 1e6),
    "request_us": (0.0, 1e9),
    "prefills_ahead": (0.0, 1e3),
}
"""Constant → least and largest value; the two shares are above 0."""
_SHARES = ("bandwidth", "compute")
_ERRORS = ("tpot", "ttft", "tpot_left_out", "ttft_left_out")
_KEYS = {
    "engine": str,
    "model": str,
    "gpu": str,
    "weights": str,
    "kv": str,
    "data": str,
    "date": datetime.date,
    "rows": int,
    "rows_left_out": int,
    "errors_percent": dict,
    "constants": dict,
}
_LARGEST_FILE = 1 << 20
_HEAD = """\
# Constants of an engine on a GPU, fitted by python -m runner.calibrate
# use: python -m runner kernel=estimate estimate.efficiency=<this file> estimate.weights={weights} estimate.kv={kv}
"""


@dataclass(frozen=True)
class Errors:
    """Mean absolute percentage errors."""

    tpot: float
    ttft: float
    tpot_left_out: float
    """Each configuration (prompt, output, TP) predicted from a fit without it."""
    ttft_left_out: float


@dataclass(frozen=True)
class Calibration:
    """Constants and where they come from."""

    engine: str
    model: str
    gpu: str
    weights: str
    kv: str
    """How the engine stores its KV cache where it is not told, as far as the data show."""
    data: str
    """Name of the file of measurements."""
    date: datetime.date
    """Of the fit."""
    rows: int
    """Measurements fitted."""
    rows_left_out: int
    """Measurements of loads that waited for KV space."""
    errors: Errors
    efficiency: Efficiency


def write(calibration: Calibration, path: Path) -> None:
    """Raises ``OSError``."""
    document: dict[str, Any] = {
        key: getattr(calibration, key) for key in _KEYS if key not in ("errors_percent", "constants")
    }
    document["errors_percent"] = {key: round(getattr(calibration.errors, key), 2) for key in _ERRORS}
    document["constants"] = {key: float(f"{getattr(calibration.efficiency, key):.4g}") for key in RANGES}
    head = _HEAD.format(weights=calibration.weights, kv=calibration.kv)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")


def read(path: Path) -> Efficiency:
    """The constants, with a source that says engine, GPU, model, data, date and error. Raises ``ConfigError``."""
    where = f"estimate.efficiency={path}"
    document = _load(where, path)
    for key in document:
        if key not in _KEYS:
            raise ConfigError(f"{where}: '{key}' is not one of its keys; {choose_from(str(key), _KEYS)}")
    for key, kind in _KEYS.items():
        if key not in document:
            raise ConfigError(f"{where}: has no {key}; python -m runner.calibrate writes such a file")
        if not isinstance(document[key], kind) or isinstance(document[key], bool):
            raise ConfigError(f"{where}: {key}: {document[key]!r} is not {_SAID[kind]}")
    constants = _numbers(where, "constants", document["constants"], tuple(RANGES))
    for key, value in constants.items():
        low, high = RANGES[key]
        if not low <= value <= high or (key in _SHARES and not value):
            least = "above 0" if key in _SHARES else f"at least {low:g}"
            raise ConfigError(f"{where}: constants.{key}: {value:g} must be {least} and at most {high:g}")
    errors = _numbers(where, "errors_percent", document["errors_percent"], _ERRORS)
    said = (
        f"{document['engine']} on {document['gpu']}, {document['model']} with {document['weights']} weights and "
        f"{document['kv']} KV: fitted {document['date']} to {document['rows']} rows of {document['data']} "
        f"(left-out error: TPOT {errors['tpot_left_out']:.1f} %, TTFT {errors['ttft_left_out']:.1f} %)"
    )
    return Efficiency(level="model", source=said, **constants)


_SAID = {str: "text", int: "an integer", dict: "a mapping", datetime.date: "a date"}


def _load(where: str, path: Path) -> dict[Any, Any]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise ConfigError(f"{where}: larger than {_LARGEST_FILE} bytes, so no file of python -m runner.calibrate")
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{where}: no such file; allowed are ideal, model, or a file that python -m runner.calibrate wrote"
        ) from error
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{where}: holds no mapping; python -m runner.calibrate writes such a file")
    return document


def _numbers(where: str, section: str, values: dict[Any, Any], names: tuple[str, ...]) -> dict[str, float]:
    """Exactly the named numbers of a section."""
    for key in values:
        if key not in names:
            raise ConfigError(f"{where}: {section}.{key} is not known; {choose_from(str(key), names)}")
    found = {}
    for name in names:
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ConfigError(f"{where}: {section}.{name}: {value!r} is not a number")
        found[name] = float(value)
    return found
