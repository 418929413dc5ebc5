#!/usr/bin/env bash
# Makes .venv if it is missing, installs the test extra, runs lint, types and tests. Further words go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh test
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
# Two workers on two cores: with more threads they would wait for each other.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
exec .venv/bin/python -m pytest -n 2 --dist loadfile "$@"
