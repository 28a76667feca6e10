"""Measured times of a served model, from a CSV: one row for each load.

Columns are those of the sample that aiconfigurator ships: ``COLUMNS`` and, where they are there, ``mode``, ``pp_size``
and ``attention_dp_size``. Others are not read. ``batch_size`` is the number of requests in flight.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.config.errors import ConfigError

COLUMNS = (
    "backend",
    "model_path",
    "system",
    "precision",
    "isl",
    "osl",
    "batch_size",
    "tp_size",
    "silicon_ttft_ms",
    "silicon_tpot_ms",
)
"""Every row must fill these."""
_ONLY = {"mode": "agg", "pp_size": "1", "attention_dp_size": "1"}
"""Columns that may be absent, with the only value that the closed form describes."""
_MODELS = {
    "gpt2": "gpt2_small",
    "llama-2-7b": "llama2_7b",
    "llama-2-70b": "llama2_70b",
    "meta-llama-3-8b": "llama3_8b",
    "meta-llama-3-70b": "llama3_70b",
    "llama-3.1-8b": "llama3_1_8b",
    "llama-3.1-70b": "llama3_1_70b",
    "llama-3.2-1b": "llama3_2_1b",
    "mixtral-8x7b-v0.1": "mixtral_8x7b",
    "qwen2.5-0.5b": "qwen2_5_0_5b",
    "qwen2.5-7b": "qwen2_5_7b",
    "qwen2.5-72b": "qwen2_5_72b",
    "qwen3-8b": "qwen3_8b",
    "deepseek-v3": "deepseek_v3",
}
"""Name of a model after its publisher's, in lower case → option of the ``model`` group."""
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Row:
    """One load: ``concurrency`` requests in flight, each of the same lengths."""

    engine: str
    model: str
    """As the file writes it: ``meta-llama/Llama-3.1-70B``."""
    gpu: str
    """Option of the ``gpu`` group: ``h200_sxm``."""
    precision: str
    """Of the weights, as the file writes it: ``fp8``."""
    prompt: int
    output: int
    concurrency: int
    tensor: int
    ttft_s: float
    tpot_s: float

    @property
    def configuration(self) -> tuple[int, int, int]:
        """What is left out together: the same lengths on as many GPUs."""
        return self.prompt, self.output, self.tensor

    @property
    def shown(self) -> str:
        return f"prompt {self.prompt}, output {self.output}, concurrency {self.concurrency}, TP {self.tensor}"


def read(path: Path, key: str = "data") -> list[Row]:
    """The rows in the file's order. ``key``: what the user named the file with.

    Raises ``ConfigError`` naming file, line, column and what is allowed.
    """
    where = f"{key}={path}"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            _check_header(where, reader.fieldnames or ())
            rows = [_row(f"{path}, line {reader.line_num}", cells) for cells in reader]
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{where}: is not a CSV file: {error}") from error
    if not rows:
        raise ConfigError(f"{where}: has a header and no rows")
    return rows


def model_option(name: str) -> str:
    """The option of the ``model`` group that a file calls ``name``; empty where none is known by it."""
    short = name.rsplit("/", 1)[-1].lower()
    for ending in ("-instruct", "-hf", "-fp8"):
        short = short.removesuffix(ending)
    return _MODELS.get(short, "")


def _check_header(where: str, names: Sequence[str]) -> None:
    absent = [name for name in COLUMNS if name not in names]
    if absent:
        raise ConfigError(f"{where}: has no column {', '.join(absent)}; needed are {', '.join(COLUMNS)}")


def _row(where: str, cells: Mapping[str | None, str | None]) -> Row:
    if None in cells or None in cells.values():
        raise ConfigError(f"{where}: has not as many cells as the header")
    texts = {str(name): str(cell).strip() for name, cell in cells.items()}
    for name, allowed in _ONLY.items():
        if texts.get(name, allowed) != allowed:
            raise ConfigError(f"{where}: {name}={texts[name]}: only {allowed} can be fitted")
    for name in ("backend", "model_path", "system", "precision"):
        if not texts[name]:
            raise ConfigError(f"{where}: {name} is empty")
    return Row(
        engine=texts["backend"],
        model=texts["model_path"],
        gpu=texts["system"],
        precision=texts["precision"],
        prompt=_count(where, texts, "isl"),
        output=_count(where, texts, "osl"),
        concurrency=_count(where, texts, "batch_size"),
        tensor=_count(where, texts, "tp_size"),
        ttft_s=_milliseconds(where, texts, "silicon_ttft_ms") / 1e3,
        tpot_s=_milliseconds(where, texts, "silicon_tpot_ms") / 1e3,
    )


def _count(where: str, texts: Mapping[str, str], name: str) -> int:
    text = texts[name]
    value = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    if not 1 <= value <= _LARGEST:
        raise ConfigError(f"{where}: {name}={text}: must be a whole number from 1 to {_LARGEST}")
    return value


def _milliseconds(where: str, texts: Mapping[str, str], name: str) -> float:
    try:
        value = float(texts[name])
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(f"{where}: {name}={texts[name]}: must be a time above 0, ms")
    return value
