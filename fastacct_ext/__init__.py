"""Compiled kernels of fastacct: doubles, pointers and status codes; imports nothing of `fastacct`."""
