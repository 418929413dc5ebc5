#!/usr/bin/env bash
# Creates .venv if it is missing, installs the test extra, runs lint, types and tests. Further arguments go to pytest;
# `-m long` runs the tests that are left out because they take long, `-m ""` runs all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh test
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
# Two workers on two cores; more threads would compete for the cores.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec .venv/bin/python -m pytest -n 2 --dist loadfile "$@"
