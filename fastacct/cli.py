"""The `fastacct` command."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; without the optional libraries, say how to install them.

    Guarantee
    ---------
    Exit code 0: done; 1: a target cannot be met, or a published figure does not match; 2: bad usage or invalid value.

    Parameters
    ----------
    None
        Arguments are read from `sys.argv`.

    Returns
    -------
    None

    Raises
    ------
    SystemExit
        Always, with the exit code.

    Examples
    --------
    >>> main()  # doctest: +SKIP
    """
    try:
        import typer  # noqa: F401  (only asked whether it is there)
    except ImportError:
        print('error: the fastacct command needs typer: pip install "fastacct[cli]"', file=sys.stderr)
        raise SystemExit(2) from None
    from fastacct.commands import app

    app()


if __name__ == "__main__":
    main()
