#!/usr/bin/env bash
# Builds the documentation site into outputs/site. A broken link, a missing docstring or a failing example is an error.
# Every example is run during the build; results are cached in outputs/site-runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh docs
export PATH="$PWD/.venv/bin:$PATH" OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=1
mkdir -p outputs/site-runs
exec .venv/bin/python -m mkdocs build --strict --config-file scripts/site/mkdocs.yml "$@"
