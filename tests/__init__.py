"""The package of all tests. What is in tools/ has no folder in its name: tests/tools/near.py is `tests.near`."""

__path__.append(f"{__path__[0]}/tools")
