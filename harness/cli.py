"""`openended`: the one place where Hydra's configuration becomes typed settings."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from openended.harness import terminal
from openended.harness.errors import HarnessError, suggest
from openended.harness.text import plain

log = logging.getLogger("openended")


def main() -> None:
    """Run `openended` with the process's arguments.

    Exit code 0, 1 (a job failed), 2 (bad input), 130 (Ctrl-C), 143 (SIGTERM) or 141 (nobody reads standard output).
    """
    terminal.start()
    # Hydra would print its own multi-line report and leave with 1; ours is one line and 2.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    from openended.harness.hydra_app.job import Job

    try:
        hydra.main(version_base="1.3", config_path="pkg://openended.conf", config_name="config")(Job())()
    except HarnessError as err:
        _fail(str(err))
    except (HydraException, OmegaConfBaseException) as err:
        _fail(explain(err))
    except OSError as err:
        _fail(f"{err.strerror or err}: {err.filename}" if err.filename else str(err))
    except KeyboardInterrupt as err:
        terminal.interrupted(err, "interrupted; everything finished is kept: the same command goes on from here")


def _fail(message: str) -> None:
    from openended.harness.hydra_app.job import USER_ERROR

    print(f"openended: {plain(' '.join(message.split()))}", file=sys.stderr)  # noqa: T201
    raise SystemExit(USER_ERROR) from None


def explain(err: BaseException) -> str:
    """Turn a composition error into one line, with the nearest name where an option or a choice is misspelt."""
    from hydra.errors import MissingConfigException

    cause: Any = err
    while cause is not None:
        parent = getattr(cause, "parent_node", None)
        if parent is not None and getattr(cause, "full_key", None) and hasattr(parent, "keys"):
            # The key may hold dots of its own; what is unknown is its last part.
            return f"no option {cause.full_key!r}{suggest(str(cause.key), [str(k) for k in parent])}"
        cause = cause.__cause__
    if isinstance(err, MissingConfigException) and err.missing_cfg_file and err.options:
        group, _, choice = str(err.missing_cfg_file).rpartition("/")
        return f"no {group or 'config'} {choice!r}{suggest(choice, err.options)}"
    return str(err)


if __name__ == "__main__":
    main()
