# Creates .venv and installs the pinned dependencies; sourced by the other scripts.
# Usage: source scripts/_venv.sh [EXTRAS], for example `test`. A finished install is repeated only if its inputs change.

find_python() {
  for name in python3.11 python3.12 python3.13 python3.14 python3 python; do
    if command -v "$name" >/dev/null 2>&1 &&
      "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  echo "openended needs Python 3.11 to 3.14, and none is on the PATH; install one of them" >&2
  exit 2
}

make_venv() {
  local extras="$1" target="."
  [ -n "$extras" ] && target=".[$extras]"
  if [ ! -x .venv/bin/python ]; then
    echo "creating .venv"
    "$(find_python)" -m venv .venv
  fi
  local stamp
  stamp=".venv/.installed-${extras:-core}-$(cat pyproject.toml constraints.txt | cksum | tr ' ' '-')"
  if [ ! -f "$stamp" ]; then
    echo "installing $target with the versions of constraints.txt (takes some minutes the first time)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$target"
    touch "$stamp"
  fi
}

make_venv "${1:-}"
