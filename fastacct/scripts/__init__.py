"""Training scripts, read and not run: which sampler a loop has, which epsilon holds for it, and what must be asked for.

`names` says what a name stands for where that is sure (`tables`: in dictionaries), `loops` how often a line runs,
`sources` what a data loader is, `engines`, `trainers` and `others` what is said to Opacus and others, `noise` where
it is added by hand (which is asked about as a whole), `flow` which names are private data, `kinds` and `calls` what
is made of it, `rounds` and `plain` whether each line has a form that is known (`plain.toml` has the words),
`understood` what is asked, `public` what else is trained on, `accounts` what the script's own accountant counts,
`answers` what is proved of it, `files` finds the scripts.
"""
