"""Which web domains the human texts in each cell of MAUVE come from (MAUVE, appendix F)."""

from collections import Counter

import pandas as pd

from openended.harness.core import DataError
from openended.harness.report.tables.frame import Filled, Frame, build_frame, make_quantity
from openended.harness.report.tables.selection import TablePart
from openended.harness.results import Layout, Results, System, group_systems, locate_verified_file
from openended.harness.storage import read_examples

FIELDS = ("domain", "package", "topic")  # of an example's metadata: the site of news, the package of a docstring
LEAST, LEAST_OF_FEW, FEW = 20, 5, 1000  # human texts of a cell that is shown, also of fewer than 1,000 human texts
FEW_DOMAINS = 2


def build_domain_frames(part: TablePart, layout: Layout) -> list[Frame]:
    """Build a table of cells and domains for every system whose run and metadata are in the store."""
    systems = group_systems(part.items)
    tables: list[Frame] = []
    for system in systems:
        texts = _read_domains(part.results, system)
        if texts.empty:
            continue
        by_cell = texts.groupby("cell")["domain"]
        cells = by_cell.agg(["size", "nunique"])
        least = LEAST_OF_FEW if len(texts) < FEW else LEAST
        visible = cells[cells["size"] >= least].sort_values(["nunique", "size"], ascending=[True, False], kind="stable")
        counts = [Counter(by_cell.get_group(cell)).most_common() for cell in visible.index]
        listed = [", ".join(f"{domain} {n}" for domain, n in domain_counts) for domain_counts in counts]
        columns: list[Filled] = [
            (make_quantity("mauve", "texts", "human texts", decimals=0), visible["size"]),
            (make_quantity("mauve", "domains", "domains", decimals=0), visible["nunique"]),
            (make_quantity("mauve", "counts", "texts of each domain"), listed),
        ]
        remark = (
            f"{(visible['nunique'] <= FEW_DOMAINS).sum()} of {len(visible)} cells with at least {least} human texts "
            "hold texts of one or two domains; "
            f"{len(texts):,} texts of {texts['domain'].nunique()} domains in {len(cells)} cells."
        )
        stem = part.stem if len(systems) == 1 else f"{part.stem}-{len(tables) + 1}"
        title, labels = f"{layout.title}: {system.name}", [f"cell {cell}" for cell in visible.index]
        tables.append(build_frame(stem, title, labels, columns, [remark], roles="metric", head="Cell"))
    if not tables:
        raise DataError(
            "no run has cells of MAUVE for texts with a domain: run metric=[mauve] with "
            "task=realnews or task=docs (and another outputs_dir if this store has MAUVE without cells of texts)"
        )
    return tables


def _read_domains(results: Results, system: System) -> pd.DataFrame:
    """Return cell (of the first clustering) and domain of the human texts of which both are known."""
    value = system.value("mauve", "mauve")
    cells = next(iter(results.list_arrays(value)), {}).get("human_cells", ())
    run = value.sources[0][0] if value is not None else results.runs[0]
    artifacts = [each.artifact for each in run.inputs if each.stage == "examples"]
    paths = (locate_verified_file(run.store, a, "examples.arrow", results.damaged) for a in artifacts)
    examples = sorted((e for path in paths if path is not None for e in read_examples(path)), key=lambda e: e.id)
    domains = [next((str(e.meta[field]) for field in FIELDS if field in e.meta), None) for e in examples]
    fits = len(cells) == len(examples)  # the metric sorts its rows by example
    return pd.DataFrame({"cell": cells if fits else [], "domain": domains if fits else []}).dropna()
