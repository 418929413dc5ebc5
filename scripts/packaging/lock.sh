#!/usr/bin/env bash
# Writes uv.lock, and its versions as constraints.txt for pip. Versions stay as they are; `--upgrade` raises all of them,
# `--upgrade-package NAME` one. Run scripts/test.sh afterwards. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v uv >/dev/null || { echo "uv is not installed; pip install uv" >&2; exit 2; }
uv lock "$@"
extras=(test docs all)
{
  echo "# Every version that CI and the quick start install, from uv.lock: bash scripts/packaging/lock.sh"
  # Without the markers: pip holds these versions on every system.
  uv export --frozen --quiet --no-hashes --no-annotate --no-header --no-emit-project "${extras[@]/#/--extra=}" |
    sed 's/ *;.*//' | sort -u
} >constraints.txt.new
mv constraints.txt.new constraints.txt
