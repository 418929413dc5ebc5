#!/usr/bin/env bash
# Injects kills, damage, races, forged files, hostile servers and other faults into a small run; prints a table.
# Usage: bash scripts/campaign.sh [SEED] [SCALE]; SCALE 1 (default) takes about an hour, 0.1 a tenth of the faults.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/_venv.sh test
export OMP_NUM_THREADS=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec .venv/bin/python -m tests.campaign.faults all "${1:-0}" "${2:-1}"
