"""How a ``config.json`` turns positions into angles, and what its norms add."""

from __future__ import annotations

from typing import Any

from runner.estimate.config_file import Fields

_THETA = {"mixtral": 1e6, "gpt_oss": 150_000.0}
"""Base where the file gives none; of every other type 10,000."""
_EPSILON = {"gpt_oss": 1e-5}
"""Of the RMS norms where the file gives none; of every other type 1e-6."""
_PLAIN = ("", "default", "none")
_NAME_LIMIT = 40


def figures(fields: Fields, kind: str) -> dict[str, Any]:
    """``rope_theta``, ``rope_scaling`` with its factors, and ``norm_eps`` of the model type ``kind``."""
    if kind == "gpt2":
        return {"norm_eps": fields.real("layer_norm_epsilon", 1e-5)}
    newer = _section(fields, "rope_parameters")
    theta = newer.real("rope_theta", fields.real("rope_theta", _THETA.get(kind, 10_000.0)))
    older = _section(fields, "rope_scaling")
    section = newer if _scaling(newer) else older
    scaling = _scaling(section)
    if not scaling and fields.real("partial_rotary_factor", 1.0) != 1:
        scaling = "partial"
    return {
        "rope_theta": theta,
        "rope_scaling": scaling,
        **_factors(section, scaling),
        "norm_eps": fields.real("rms_norm_eps", _EPSILON.get(kind, 1e-6)),
    }


def _factors(section: Fields, scaling: str) -> dict[str, Any]:
    """What ``linear`` and ``llama3`` are defined by. Of another kind nothing: it has to be refused by its name."""
    if scaling == "linear":
        return {"rope_factor": _required(section, "factor")}
    if scaling != "llama3":
        return {}
    low, high = _required(section, "low_freq_factor"), _required(section, "high_freq_factor")
    if high <= low:
        raise section.wrong("high_freq_factor", f"more than low_freq_factor={low:g}")
    return {
        "rope_factor": _required(section, "factor"),
        "rope_low_freq_factor": low,
        "rope_high_freq_factor": high,
        "rope_original_positions": section.integer("original_max_position_embeddings"),
    }


def _required(section: Fields, key: str) -> float:
    if section.get(key) is None:
        raise section.missing(key, "a number above 0")
    return section.real(key, 1.0)


def _section(fields: Fields, key: str) -> Fields:
    """The object under ``key``, its keys named after it in messages; without keys where there is none."""
    value = fields.get(key)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise fields.wrong(key, "an object with rope_type, or null")
    return Fields(f"{fields.file}: {key}", value)


def _scaling(section: Fields) -> str:
    """Name of the kind; empty where positions are plain. ``type`` is the older name of the key."""
    kind = section.text("rope_type") or section.text("type")
    if len(kind) > _NAME_LIMIT or not kind.isprintable():
        raise section.wrong("rope_type", "the name of a kind, as llama3, yarn or linear")
    if not kind and section.get("factor") is not None:
        return "linear"
    if kind in _PLAIN and section.real("partial_rotary_factor", 1.0) != 1:
        return "partial"
    return "" if kind in _PLAIN else kind
