"""`python -m fastacct` is the `fastacct` command."""

from fastacct.cli import main

if __name__ == "__main__":
    main()
