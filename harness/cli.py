"""`openended`, and how each of our commands that Hydra configures is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from openended.harness import terminal

_VERBOSE = ("-v", "--verbose")
_TRUST = "--trust-config"


def main() -> None:
    """Run `openended` with the process's arguments.

    Raises:
        SystemExit: With one of `exitcodes`, unless all went well.
    """
    words = hydra_words(sys.argv[1:])
    if words[:1] == ["score"]:
        from openended.harness.commands import score

        raise SystemExit(score.main([word.replace("hydra.verbose=true", "-v") for word in words[1:]]))
    from openended.harness.hydra_app.job import Job

    start("openended", "config", Job())


def start(command: str, config: str, job: Callable[[Any], None]) -> None:
    """Compose a configuration from the process's arguments and run what it configures.

    Args:
        command: Name of the command.
        config: Name of its root in `conf/`.
        job: What Hydra calls with the composed configuration.

    Raises:
        SystemExit: With one of `exitcodes`, unless all went well.
    """
    # Hydra would print its own report of several lines and leave with 1; ours is one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    terminal.start()
    words = sys.argv[1:]
    sys.argv[1:] = hydra_words(words)
    import hydra

    from openended.harness.hydra_app import trust
    from openended.harness.hydra_app.show import leave_with_code

    os.environ[trust.TRUST] = str(int(_TRUST in words))
    trust.guard()
    leave_with_code(
        command, hydra.main(version_base="1.3", config_path="pkg://openended.conf", config_name=config)(job)
    )


def hydra_words(words: Sequence[str]) -> list[str]:
    """Return the command line as Hydra reads it, which has no `-v` and no `--trust-config`."""
    kept = [word for word in words if word not in (*_VERBOSE, _TRUST)]
    return [*kept, "hydra.verbose=true"] if any(word in _VERBOSE for word in words) else kept


if __name__ == "__main__":
    main()
