"""Which web domains the human texts in each cell of MAUVE come from (MAUVE, appendix F)."""

from collections import Counter
from collections.abc import Sequence

from openended.harness.core import DataError, Example
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
        domains = _read_domains(part.results, system)
        if not domains:
            continue
        total = sum(counts.total() for counts in domains.values())
        least = LEAST_OF_FEW if total < FEW else LEAST
        visible = [entry for entry in domains.items() if entry[1].total() >= least]
        visible.sort(key=lambda entry: (len(entry[1]), -entry[1].total(), entry[0]))
        counts = [counts for _, counts in visible]
        columns: list[Filled] = [
            (make_quantity("mauve", "texts", "human texts", decimals=0), [c.total() for c in counts]),
            (make_quantity("mauve", "domains", "domains", decimals=0), map(len, counts)),
            (make_quantity("mauve", "counts", "texts of each domain"),
             [", ".join(f"{domain} {n}" for domain, n in c.most_common()) for c in counts]),
        ]  # fmt: skip
        pure = sum(len(c) <= FEW_DOMAINS for c in counts)
        remark = (
            f"{pure} of {len(counts)} cells with at least {least} human texts hold texts of one or two domains; "
            f"{total:,} texts of {len(set().union(*domains.values()))} domains in {len(domains)} cells."
        )
        stem = part.stem if len(systems) == 1 else f"{part.stem}-{len(tables) + 1}"
        title, labels = f"{layout.title}: {system.name}", [f"cell {cell}" for cell, _ in visible]
        tables.append(build_frame(stem, title, labels, columns, [remark], roles="metric", head="Cell"))
    if not tables:
        raise DataError(
            f"table {part.stem}: no run has cells of MAUVE for texts with a domain: run metric=[mauve] with "
            "task=realnews or task=docs (and another outputs_dir if this store has MAUVE without cells of texts)"
        )
    return tables


def _read_domains(results: Results, system: System) -> dict[int, Counter[str]]:
    """Return the domains of the human texts in each cell of the first clustering; empty where they are unknown."""
    value = system.value("mauve", "mauve")
    cells = next(iter(results.list_arrays(value)), {}).get("human_cells")
    run = results.runs[value.sources[0][0] if value is not None else 0]
    artifacts = [a for stage, a in run.inputs.items() if stage.startswith("examples:")]
    paths = (locate_verified_file(run.store, a, "examples.arrow", results.damaged) for a in artifacts)
    examples: Sequence[Example] = [e for path in paths if path is not None for e in read_examples(path)]
    domains: dict[int, Counter[str]] = {}
    if cells is None or len(cells) != len(examples):
        return domains
    # The metric sorts its rows by example.
    for cell, example in zip(cells, sorted(examples, key=lambda e: e.id), strict=True):
        domain = next((str(example.meta[field]) for field in FIELDS if field in example.meta), None)
        if domain is not None:
            domains.setdefault(int(cell), Counter())[domain] += 1
    return domains
