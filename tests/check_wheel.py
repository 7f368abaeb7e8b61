"""Check the fastacct that is installed: complete, outside of the checkout, and right."""

import os
import sys
from importlib import metadata

import fastacct as fa

if __name__ == "__main__":
    assert fa.__version__ == metadata.version("fastacct"), fa.__version__
    assert fa.__file__.startswith(sys.prefix), fa.__file__
    e = fa.dpsgd.epsilon(noise_multiplier=1.0, sample_rate=0.01, steps=1000, delta=1e-5)
    assert abs(e - 1.828236666516577) < 1e-9, e
    assert fa.get_include().startswith(sys.prefix), fa.get_include()
    assert os.path.isfile(os.path.join(fa.get_include(), "fastacct.h"))
    assert os.path.isfile(os.path.join(fa.get_include(), "..", "fastacct.c"))
    print("computed", e, "from", fa.__file__, "on", sys.version.split()[0])
