"""A pytest plugin for tests/tools/near.py: the kernels that are in build/near in place of those that are installed."""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build" / "near" / "fastacct_ext"
for name in ("_kernels", "_densities"):
    [file] = [one for one in FOLDER.iterdir() if one.name.startswith(f"{name}.") and one.suffix in (".so", ".pyd")]
    spec = importlib.util.spec_from_file_location(f"fastacct_ext.{name}", file)
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])
