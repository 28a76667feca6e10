"""``python -m runner``, and the ``runner`` script."""

import sys

INTERRUPTED = 130


def run() -> int:
    """The command, quiet also when Ctrl-C comes while it is still being imported."""
    try:
        from runner.cli import main

        return main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(run())
