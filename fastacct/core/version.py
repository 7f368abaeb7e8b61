"""The version of the package, and where its C interface is."""

import os

import fastacct_ext

__version__ = "0.3.0"


def get_include() -> str:
    """The folder of `fastacct.h`, the C interface; its source file is `fastacct.c` in the folder above.

    >>> import os, fastacct as fa
    >>> os.path.isfile(os.path.join(fa.get_include(), "fastacct.h"))
    True
    >>> os.path.isfile(os.path.join(fa.get_include(), "..", "fastacct.c"))
    True
    """
    return os.path.join(fastacct_ext.__path__[0], "include")
