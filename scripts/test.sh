#!/usr/bin/env bash
# Creates .venv if it is missing, installs the test extra, runs lint, types and the daily tests.
# `--all` adds the slow tests, as CI does. Further arguments go to pytest: `-m long` and `-m real` run what CI runs
# every week.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh test
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
if [ "${1:-}" = --all ]; then
  shift
  set -- -m "not long and not real" "$@"
fi
# Two workers on two cores; more threads would compete for the cores.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# Each worker, and each process that a test starts, would compile all sources again.
export PYTHONDONTWRITEBYTECODE=
exec .venv/bin/python -m pytest -n 2 --dist loadfile "$@"
