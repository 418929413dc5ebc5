"""Run a study: `python -m scripts.studies NAME`."""

import sys

from scripts.studies.study import main

sys.exit(main())
