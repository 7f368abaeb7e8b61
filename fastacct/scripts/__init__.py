"""Training scripts, read and not run: which sampler a loop has, which epsilon holds for it, and what must be asked for.

`names` says what a name stands for where that is sure (`tables`: in dictionaries), `loops` how often a line runs,
`sources` what a data loader is, `engines`, `trainers` and `others` what is said to Opacus and others, `noise` where it
is added by hand (which is asked about as a whole),
`records` whether a record counts once in a batch, `mixing` what combines records by its name, `flow` and `leaks` what
is told of records beside the noise, `public` what else is trained on, `understood`, `beside` and `single` name what is
not known (`known.toml` has what is), `accounts` what the script's own accountant counts, `answers` what is proved of
it, `files` finds the scripts.
"""
