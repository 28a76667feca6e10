"""Runs of ``kernel=mini_llm`` as measurements of an estimate's load: TTFT of its prefill, TPOT of its token loops."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from runner.config.errors import ConfigError
from runner.config.schema import Config
from runner.estimate import decoder
from runner.estimate.beside import FIGURES, Measurement
from runner.estimate.model import Estimate
from runner.execute.kernel_sets import Found
from runner.paths import project_dir
from runner.record import search
from runner.record.location import TrackingUnavailable, locate
from runner.result.model import Result, Status
from runner.result.names import plain

DECODER = "mini_llm"
RUN, STORE = "run:", "store"
"""``estimate.measured=run:<id>[,<id>]`` and ``estimate.measured=store``."""


def in_store(given: str, config: Config, made: Estimate) -> list[Found] | None:
    """The runs that ``estimate.measured`` names in the store; None where it names a file. Raises ``ConfigError``."""
    if given != STORE and not given.startswith(RUN):
        return None
    where, tracking = f"estimate.measured={given}", config.tracking
    if not tracking.enabled:
        raise ConfigError(f"{where}: there is no store (tracking=none); give a result.json or its folder")
    try:
        location = locate(tracking.uri, project_dir())
        if given == STORE:
            letters = {key: str(value) for key, value in _asked(made, where).items()}
            runs = search.newest(location, DECODER, {**_device(made), **letters})
            passed = [one for one in runs if one[1].status is Status.PASSED and not decoder.otherwise(one[1].params)]
            newest = {result.variant: (run, result) for run, result in reversed(passed)}
            if not newest:
                told = " ".join(f"{key}={value}" for key, value in letters.items())
                raise ConfigError(f"{where}: no passed run of kernel={DECODER} with {told} on {made.machine.name}")
            return [Found(f"run {run}", result) for run, result in newest.values()]
        ids = [one for one in re.split(r"[,+]", given.removeprefix(RUN)) if one]
        found = [Found(f"run {one}", search.one(location, one)) for one in ids]
    except TrackingUnavailable as error:
        raise ConfigError(f"{where}: {error}") from error
    others = [one for one in found if one.result.kernel != DECODER]
    if others or not found:
        is_of = f"{others[0].source} is of kernel={others[0].result.kernel}" if others else "names no run"
        raise ConfigError(f"{where}: {is_of}; needed are runs of kernel={DECODER}")
    return found


def measurements(
    where: str, found: Sequence[Found], made: Estimate, cause: Callable[[Result], str]
) -> list[Measurement]:
    """One for each variant that passed. Raises ``ConfigError`` where none did, and for a run of another load."""
    passed = [one for one in found if one.result.status is Status.PASSED]
    if not passed:
        ended = ", ".join(f"{one.result.variant} {one.result.status.value}" for one in found)
        raise ConfigError(f"{where}: no variant passed ({ended})")
    asked: dict[str, object] = {**_device(made), **_asked(made, where)}
    made_of = []
    for one in passed:
        params = {"gpu": one.result.gpu, "backend": one.result.backend, **one.result.params}
        if other := decoder.otherwise(params):
            raise ConfigError(f"{where}: {one.result.variant} was measured with {other}; needed is a run without")
        for key, value in asked.items():
            if plain(params.get(key, "")) != str(value):
                raise ConfigError(
                    f"{where}: {one.result.variant} was measured with {key}={plain(params.get(key, ''))}, and the "
                    f"estimate has {_KEYS.get(key, key)}={value}"
                )
        figures = _figures(one.result)
        if figures:
            by = re.sub(r"\W+", "_", one.result.variant)
            made_of.append(Measurement(by, one.source, figures, served=False, cause=cause(one.result), levels=True))
    if not made_of:
        raise ConfigError(f"{where}: its variants have none of ttft_ms, tpot_us and tokens_per_s")
    return made_of


_KEYS = {
    "B": "shape.batch",
    "prompt": "shape.prompt",
    "steps": "shape.output",
    "weights": "estimate.weights",
    "group": "a group of estimate.weights",
    "kv": "estimate.kv",
    **{letter: f"model.{key}" for letter, key in decoder.LETTERS.items()},
}
"""Parameter of the decoder → what the estimate calls it."""


def _device(made: Estimate) -> dict[str, str]:
    return {"gpu": made.machine.name, "backend": "cuda" if made.machine.rated else "host"}


def _asked(made: Estimate, where: str) -> dict[str, object]:
    """The load of the estimate under the decoder's parameters. It decodes ``steps`` tokens behind the prompt."""
    work, arch = made.work, made.architecture
    part, mlp = arch.layers[0].attention, arch.layers[0].mlp
    try:
        word, group = decoder.weights_word(work.weights)
        kv = decoder.kv_word(work.kv)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    figures = {"L": len(arch.layers), "h": arch.hidden, "H": part.heads, "KVH": part.kv_heads, "D": part.head_dim}
    load = {"B": work.batch, "prompt": work.prompt, "steps": work.output, "weights": word, "kv": kv}
    return {**figures, "I": mlp.width, "V": arch.vocab, **load, **({"group": group} if group else {})}


def _figures(result: Result) -> dict[str, float]:
    """Those of ``FIGURES`` that a variant measured."""
    metrics = result.metrics
    told = {name: metrics[name] for name in FIGURES if name in metrics}
    if "tpot_us" in metrics:
        told["tpot_ms"] = metrics["tpot_us"] / 1e3
    if "tpot_ms" not in told:
        told.pop("tokens_per_s", None)  # of a prefill they would be tokens of the prompt
    return {name: value for name, value in told.items() if 0 < value < math.inf}
