#!/usr/bin/env bash
# Makes .venv, installs the pinned dependencies and runs the quick start: three decoders on real human text,
# a table in the terminal and the same as Markdown, LaTeX, CSV and figures. Further words go to `openended`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh "" # an argument: else it would see the words meant for openended
exec .venv/bin/openended experiment=quickstart "$@"
