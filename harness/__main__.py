"""`python -m harness …` is `openended …`."""

from openended.harness.app.cli import main

if __name__ == "__main__":
    main()
