"""`python -m harness …` is `openended …`."""

from openended.harness.app import main

if __name__ == "__main__":
    main()
