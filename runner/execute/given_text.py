"""``kernel.params.text``: the tokens that a family is given, and the length of a prompt that follows from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from runner.config.errors import ConfigError
from runner.config.schema import Config
from runner.weights.prompt import shown
from runner.weights.token_ids import located, token_ids

BUFFER = "prompt_ids"
"""The buffer that a family with such a parameter fills from it."""


def with_text(config: Config, lines: Iterable[str]) -> Config:
    """The configuration with ``prompt`` as long as the text, divided over the sequences, makes it.

    As it is where no text is given. ``lines`` are the overrides by which it was composed. Raises ``ConfigError`` for a
    text that cannot be read, an id outside the vocabulary, one that is too short, and for a length given beside it.
    """
    kernel = config.kernel
    if BUFFER not in kernel.buffers or str(kernel.params.get("text", "")) == "":
        return config
    for line in lines:
        if line.lstrip("+").startswith("kernel.params.prompt="):
            raise ConfigError(f"{line}: leave it out, as kernel.params.text gives the length of the prompts")
    text = str(kernel.params["text"])
    batch, least = int(kernel.params["B"]), int(kernel.declare["prompt"].min or 1)
    ids = token_ids(text, config.model.weights, int(kernel.params["V"]))
    if len(ids) < batch * least:
        raise ConfigError(
            f"kernel.params.text={shown(text)}: {len(ids)} tokens: at least {least} for each of {batch} sequences"
        )
    params = {**kernel.params, "text": located(text), "prompt": len(ids) // batch}
    return replace(config, kernel=replace(kernel, params=params))
