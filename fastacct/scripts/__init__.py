"""Training scripts, read and not run: which sampler a loop has, which epsilon holds for it, and what must be asked for.

`names` says what a name stands for where that is sure (`tables`: in dictionaries), `loops` how often a line runs,
`sources` what a data loader is, `engines`, `trainers` and `others` what is said to Opacus and others, `noise` where
it is added by hand (which is asked about as a whole), `kinds` which names are private data and models, `calls` and
`values` what is made of them, `plain` whether each line that touches them has a form of a short list (`plain.toml` has
the words), `understood` what is asked, `accounts` what the script's own accountant counts, `answers` what is proved of
it, `files` finds the scripts.
"""
