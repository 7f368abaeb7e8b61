"""The command line: `options` what people write, `commands` and `sweeps` what is answered."""
