"""`python -m experiments` is the `runway` command."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="runway")
