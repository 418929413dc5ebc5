"""Forged archives: refused in one line, or of no effect on the runs of this machine."""

import contextlib
import importlib
import io
import json
import random
import shutil
import zipfile
from pathlib import Path

from openended.harness.core import digest
from openended.harness.storage import MANIFEST
from tests.campaign.world import Tally, World

import_command = importlib.import_module("openended.harness.app.commands.import_")

JUNK = (b"", b"{}", b"[]", b"null", b"text\n", b"\x93NUMPY", b"ARROW1", b"\xff" * 64, bytes(4096), b"[" * 9999)
NAMES = (
    "../x", "/etc/x", "runs/../../x", "store/x", "elsewhere/x", "runs/.locks/x", "runs/a\\x", "reports/a\nb", ".x",
    "store/generate/ab/short/x", "store/.locks/ab/x/y", "runs", "reports/\x1b[2J/../x", "reports/./../../x",
)  # fmt: skip


def forged_archives(world: World, count: int, draw: random.Random) -> Tally:
    """Import archives that are forged or damaged: one line and no file outside, or entries that no run believes."""
    tally, calm = Tally("forged archives"), world.run("packed")
    outputs = world.folder / "packed"
    members = {str(p.relative_to(outputs)): p.read_bytes() for p in sorted(outputs.rglob("*")) if p.is_file()}
    members = {
        name: data
        for name, data in members.items()
        if "/." not in name and name.split("/")[0] in import_command.FOLDERS
    }
    for number in range(count):
        path, target = world.folder / "forged.zip", world.folder / f"import-{number}"
        what = forge_archive(path, dict(members), draw)
        before = {p for p in world.folder.iterdir() if p != target}
        with tally.one(f"{number}: {what}"):
            errors, out = io.StringIO(), io.StringIO()
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(out):
                code = import_command.main([str(path), "--outputs", str(target)])
            lines = errors.getvalue().splitlines()
            assert (code, len(lines)) in ((0, 0), (2, 1)), f"exit code {code}, {len(lines)} lines: {lines[:3]}"
            assert "\x1b" not in errors.getvalue() + out.getvalue(), "an escape sequence"
            assert {p for p in world.folder.iterdir() if p != target} == before, "a file outside"
            assert not any(p.is_symlink() for p in target.rglob("*")), "a link"
            if code == 0 and number % 4 == 0:
                assert world.run(f"import-{number}") == calm, "another result"
        shutil.rmtree(target, ignore_errors=True)
    return tally


def forge_archive(path: Path, members: dict[str, bytes], draw: random.Random) -> str:
    """Write an archive with one forgery; return what was done."""
    how = draw.choice(
        ["name", "name", "link", "encrypted", "method", "bits", "bits", "cut", "manifest", "record", "values", "size"]
    )
    kept = {
        "manifest": [n for n in members if n.endswith(MANIFEST)], "record": [n for n in members if n.endswith("record.json")],
        "values": [n for n in members if n.endswith("result.json")],
    }.get(how, sorted(members))  # fmt: skip
    name = draw.choice(kept)
    if how in ("manifest", "record"):
        members[name] = draw.choice([*JUNK, _reseal(members[name], draw)])
    if how == "values":
        forge_values(members, name)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        if how == "name":
            name = draw.choice(NAMES)
            archive.writestr(name, "x")
        if how == "link":
            info = zipfile.ZipInfo("reports/link")
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "/etc")
    data = bytearray(path.read_bytes())
    central = data.index(b"PK\1\2")
    if how == "encrypted":
        data[central + 8] |= 1
    elif how == "method":
        data[central + 10] = draw.choice([1, 6, 9, 12, 14, 95, 99])
    elif how == "size":
        data[central + 24 : central + 28] = draw.choice([b"\xff\xff\xff\xfe", b"\0\0\0\0", b"\1\0\0\0"])
    elif how == "bits":
        for _ in range(draw.choice([1, 3, 30])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del data[draw.randrange(len(data)) :]
    path.write_bytes(data)
    return f"{how} {name!r}"


def forge_values(members: dict[str, bytes], name: str) -> None:
    """Change every value of a stored result and seal its manifest again."""
    import hashlib

    row = json.loads(members[name])
    row["values"] = dict.fromkeys(row["values"], 0.987)
    members[name] = json.dumps(row).encode()
    path = name.rpartition("/")[0] + f"/{MANIFEST}"
    manifest = {k: v for k, v in json.loads(members[path]).items() if k != "digest"}
    manifest["files"]["result.json"] = hashlib.sha256(members[name]).hexdigest()
    members[path] = json.dumps({**manifest, "digest": digest(manifest)}).encode()


def _reseal(data: bytes, draw: random.Random) -> bytes:
    """Replace a field of a sealed JSON file by something else and seal it again."""
    fields = {k: v for k, v in json.loads(data).items() if k != "digest"}
    values = [None, [], {}, 3, "../../../etc/passwd", {"generate:model": "../../home/.ssh"}, [[]], "\x1b[2J"]
    fields[draw.choice(sorted(fields))] = draw.choice(values)
    return json.dumps({**fields, "digest": digest(fields)}).encode()
