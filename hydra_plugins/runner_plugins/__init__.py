"""Our Hydra plugins. They are thin: what they do lives in ``runner.config``.

Hydra imports every module of this package at start, so none may import anything slow. There must be no
``hydra_plugins/__init__.py``: the launchers on PyPI share that name.
"""
