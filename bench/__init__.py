"""Benches: our kernels over a grid (`pytest bench`); other libraries beside us (`python -m bench.compare`)."""
