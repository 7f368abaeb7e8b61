"""Training scripts, read and not run: which sampler a loop has, which epsilon holds for it, and what must be asked for.

`names` says what a name stands for where that is sure, `loops` how often a line runs, `loaders` what a data loader is,
`frameworks` what is said to Opacus and others, `answers` what is proved of it, and `files` finds the scripts.
"""
