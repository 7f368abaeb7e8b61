"""`python -m fastacct` is the `fastacct` command."""

import sys

from fastacct.cli import main

if __name__ == "__main__":
    sys.exit(main())
