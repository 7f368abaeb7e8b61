"""Command lines that people wrote, and a part of what each is refused with; None where it is answered."""

_SIZES = "--noise-multiplier 1.1 --batch-size 50 --records 1000 --epochs 2"
COMMANDS = [
    *((f"{verb} {_SIZES} --delta 1e-5", None) for verb in ("epsilon", "certify", "guarantee")),
    *((f"epsilon {_SIZES} --delta {more}", None) for more in ("1/n", "1e-5 --json", "1e-5 --format json")),
    (f"rdp {_SIZES} --orders 2", None),
    (f"attack {_SIZES} --fpr 0.01", None),
    ("check-loader torch", None),
    ("noise-multiplier --epsilon 3 --delta 1e-5 --records 1000 --batch-size 50 --epochs 2", None),
    ("steps --epsilon 3 --delta 1e-5 --noise-multiplier 1 --records 1000 --batch-size 50", None),
    ("plan --epsilon 3 --delta 1e-5 --records 1000 --batch-size 50,100 --epochs 1,2", None),
    *((f"{word} --epsilon 3", "did you mean 'noise-multiplier'") for word in ("noise", "calibrate", "sigma")),
    *((f"{word} --fpr 0.01", "did you mean 'attack'") for word in ("tpr", "mia")),
    ("eps --delta 1e-5", "did you mean 'epsilon'"),
    *(
        (f"epsilon {word} 1 --delta 1e-5", f"did you mean {ours}")
        for word, ours in (
            ("--sigma", "--noise-multiplier"),
            ("--n", "--records"),
            ("--shuffle", "--sampling"),
            ("--noise", "--noise-multiplier"),
        )
    ),
    (f"epsilon {_SIZES}", "required: --delta"),
    (f"epsilon {_SIZES} --delta 1e-5 --sampling shuffled", "supported: 'zero_out'"),
    ("plan --epsilon 3 --delta 1e-5 --records 1000 --batch-size 50 100 --epochs 1", "have commas, as 50,100"),
    ("sweep nothere.toml", "nothere.toml: No such file or directory"),
    ("check-loop nothere.py", "there is no such file"),
]
