#!/usr/bin/env bash
# Creates .venv, installs the pinned dependencies and runs the quick start: three decoders on real human text, with a
# table in the terminal and as Markdown, LaTeX and CSV, and figures. Further arguments go to `openended`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh local,faiss # an explicit argument, so that it does not see the arguments for openended
exec .venv/bin/openended experiment=quickstart "$@"
