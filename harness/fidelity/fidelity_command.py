"""`openended fidelity A B --texts RUN|FILE`: how far one model is from another, by the Q of any decoder."""

import argparse
from itertools import islice
from pathlib import Path

from openended.harness import core
from openended.harness.core import OUTPUTS, Arguments, SpecError, make_main
from openended.harness.results import find_run

_ARGUMENTS: Arguments = {
    "models": {"nargs": 2, "metavar": "MODEL", "help": "hub ids, folders or bundled:NAME, of one vocabulary"},
    "--texts": {"required": True, "metavar": "RUN|FILE", "help": "a run, whose texts are read, or a file of texts"},
    "--decoder": {"action": "append", "metavar": "NAME[,OPTION=VALUE…]", "help": "a Q to compare in too; repeatable"},
    "--num-texts": {"type": core.positive_int, "default": 200, "metavar": "N", "help": "default: the first 200"},
    "--dtype": {"default": "float32,float32", "metavar": "A,B", "help": "default: float32,float32"},
    "--device": {"default": "cpu", "help": "default: cpu"},
    "--report": {"type": Path, "metavar": "DIR", "help": "write the table there"},
    **OUTPUTS,
}
_EXAMPLE = "openended fidelity bundled:docs-m bundled:docs-s --texts 5b2c81aa --decoder nucleus,p=0.9"


def _compare(args: argparse.Namespace) -> None:
    from openended.harness import report
    from openended.harness.decoders import parse_q_decoder
    from openended.harness.fidelity.compare import compare_models, read_strings
    from openended.harness.models import ModelSpec, load_model

    decoders = [parse_q_decoder(words) for words in ("ancestral", *(args.decoder or ()))]
    dtypes = [word.strip() for word in args.dtype.split(",")]
    if len(dtypes) != len(args.models):
        raise SpecError(f"--dtype: expected one for each model, as float32,bfloat16, got {args.dtype!r}")
    texts = list(islice(read_strings(args.texts, lambda word: find_run(word, args.outputs)), args.num_texts))
    specs = [ModelSpec(path=path, dtype=dtype) for path, dtype in zip(args.models, dtypes, strict=True)]
    for spec in specs:
        spec.demand("score")
    first, second = (load_model(spec, device=args.device) for spec in specs)
    table = compare_models(first, second, texts, decoders, progress=True)
    report.print_table(table)
    if args.report is not None:
        report.write_table(table, args.report)


main = make_main("fidelity", __doc__, _ARGUMENTS, _compare, example=_EXAMPLE)
