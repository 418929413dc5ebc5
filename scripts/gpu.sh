#!/usr/bin/env bash
# Measures the harness on a GPU in about 20 minutes and writes one page of tables: share of the memory bandwidth and waits
# of the host against transformers, vLLM against its own sampler, texts by precision, MAUVE against mauve-text with faiss.
# Run it in an environment with PyTorch for the GPU; vLLM, mauve-text and faiss-gpu are used where they are installed.
#   bash scripts/gpu.sh [--simulate] [PAGE]
set -euo pipefail
caller="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
options=(--repeats 1)
mauve="mauve, 5,000 + 5,000"
if [ "${1:-}" = --simulate ]; then
  options+=(--simulate)
  mauve="mauve, 500 + 500"
  shift
elif ! nvidia-smi --query-gpu=name,memory.total --format=csv,noheader; then
  echo "scripts/gpu.sh: no GPU was found; bash scripts/gpu.sh --simulate tries everything at tiny sizes" >&2
  exit 2
fi
python="${PYTHON:-.venv/bin/python}"
page="${1:-gpu.md}"
case "$page" in /*) ;; *) page="$caller/$page" ;; esac
failed=0
for only in accelerator precision engines "$mauve"; do
  timeout 600 "$python" scripts/bench.py --only "$only" --write "$page" "${options[@]}" || failed=1
done
if [ -e "$page" ]; then echo "written: $page"; fi
exit $failed
