"""Time how fast a report page with many texts opens in Chromium.

    python scripts/bench_page.py --systems 100 --texts 5000 --folder /tmp/many

Writes runs of many systems and builds their report. Prints the time to build it, its size, and in milliseconds the
time until the first example is visible, the time to sort all examples and the longest pause while scrolling. Needs the
extra `test` and a system Chromium.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from pathlib import Path

from openended.harness.core import Generation
from openended.harness.report import build_report
from openended.harness.storage.rows import Row, write_rows
from openended.harness.storage.store import write_manifest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.harness.report.synthetic import result, write_run

WORDS = [f"{a}{b}" for a in "ba de ki lo mu na pe ro su ti".split() for b in "ck ld m nd r s t x".split()]
SCROLL = """async () => {
  let [last, worst] = [performance.now(), 0];
  for (let at = 0; at < 120; at += 1) {
    scrollBy(0, 400);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    worst = Math.max(worst, now - last);
    last = now;
  }
  return worst;
}"""


def main() -> None:
    """Write the runs, build the report, open it and print the timings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=100)
    parser.add_argument("--texts", type=int, default=5000)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()
    started = time.monotonic()
    if not (args.folder / "runs").exists():
        write_runs(args.folder, args.systems, args.texts)
    print(f"written   {time.monotonic() - started:.1f} s")
    started = time.monotonic()
    report = build_report([args.folder / "runs"], args.folder / "report", figures=False)
    sizes = [path.stat().st_size for path in report.paths if path.parent.name == "page"]
    page = args.folder / "report/report.html"
    print(f"built     {time.monotonic() - started:.1f} s; page {page.stat().st_size / 1e6:.2f} MB, beside it "
          f"{sum(sizes) / 1e6:.0f} MB in {len(sizes)} files")  # fmt: skip
    for name, value in measure(page).items():
        print(f"{name:9} {value:.0f} ms")


def write_runs(folder: Path, systems: int, texts: int) -> None:
    """Write records and texts of synthetic systems: `top_k` with k = 1, 2, …."""
    human = _write_rows(folder / "store", "human", "human", texts)
    for number in range(systems):
        inputs = {
            "human:docs": human,
            "generate:m": _write_rows(folder / "store", "generate", f"system{number}", texts),
        }
        row = result("model", "mauve", {"mauve": number / systems}, n=texts, direction="higher", family="two_sample")
        k = number + 1
        write_run(folder, "top_k", 0, options={"k": k}, title=f"top-k k={k}", results=[row], inputs=inputs, n=texts)


def _write_rows(store: Path, stage: str, system: str, count: int) -> str:
    draw = random.Random(system)
    name = f"{stage}/aa/{system}"
    if (store / name / "manifest.json").exists():
        return name
    (store / name).mkdir(parents=True)
    texts = (" " + " ".join(draw.choices(WORDS, k=draw.randrange(60, 90))) for _ in range(count))
    rows = (
        Row(f"Prompt {at}", (), Generation(f"docs/{at:06d}", 0, text, (), "eos", -1.0)) for at, text in enumerate(texts)
    )
    write_rows(store / name / ("human.arrow" if stage == "human" else "data.arrow"), rows)
    write_manifest(store / name, {"stage": stage}, system, {})
    return name


def measure(page: Path) -> dict[str, float]:
    """Open a page and return the timings in milliseconds."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page()
        started = time.monotonic()
        tab.goto(page.resolve().as_uri())
        tab.evaluate("document.querySelector('#texts').scrollIntoView()")
        tab.locator(".example").first.wait_for()
        opened = time.monotonic() - started
        started = time.monotonic()
        tab.get_by_label("order").select_option("high")
        tab.wait_for_function("document.querySelector('.status').textContent.endsWith('examples')")
        tab.locator(".example").first.wait_for()
        ordered = time.monotonic() - started
        pause = tab.evaluate(SCROLL)
        browser.close()
    return {"opened": 1000 * opened, "sorted": 1000 * ordered, "pause": pause}


if __name__ == "__main__":
    main()
