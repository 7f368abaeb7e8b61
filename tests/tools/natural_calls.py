"""Calls that people wrote, and a part of what each is refused with: what to write instead."""

JOBS = ("GAUSSIAN", "LAPLACE", "JOB")
MORE = [
    # operators, modules, arguments without names
    *((f"GAUSSIAN {sign} LAPLACE", "job + other, or job * count") for sign in ("@", "-", "|", "&")),
    *((f"{job} {sign} 100", "job + other, or job * count") for job in ("GAUSSIAN", "JOB") for sign in ("**", "/")),
    *((f"{job}.poisson({word}=0.01)", "did you mean 'sample_rate'") for job in JOBS for word in ("q", "rate")),
    ("fa.Gaussian(1.0).fixed_size(batch=50, n=1000)", "did you mean 'batch_size'"),
    ("fa.Gaussian(1.0).with_replacement(batch_size=50, records=1000)", "did you mean 'draws'"),
    ("JOB.group(k=2)", "did you mean 'size'"),
    ("fa.plot(JOB)", "fastacct.plot is a module: call one of accuracy, "),
    ("fa.curve(JOB)", "privacy_curve, tradeoff_curve"),
    ("fa.sensitivity(0.0, 1.0)", "call one of clipped, count"),
    ("fa.dpsgd(**RUN, delta=1e-5)", "fastacct.dpsgd is a module: call one of delta, "),
    ("fa.zcdp(JOB)", "fastacct.ZCDP(rho)"),
    ("fa.help()", "dir(fastacct) has the names"),
    ("fa.dpsgd.noise_multiplier(3, 1e-5, **FIXED)", "takes no arguments without names; their names: epsilon, delta, "),
    ("fa.dpsgd.epsilon(1.0, 0.05, 20, 1e-5)", "their names: delta, noise_multiplier, sample_rate, steps"),
    ("fa.dpsgd.epsilon(JOB, delta=1e-5)", "of a job: fastacct.epsilon(job, ...)"),
    ("fa.dpsgd.epsilon(RUN, delta=1e-5)", "their names: delta, noise_multiplier"),
    ("fa.calibrate(fa.Gaussian, 1.0, 1e-5)", "their names: build, epsilon, delta"),
    ("fa.sensitivity.mean(0.0, 1.0, 100)", "takes 2 arguments without names; their names: low, high, records"),
    ("fa.utility(LAPLACE, 0.95)", "takes 1 arguments without names; their names: mechanism"),
    ("fa.sweep(JOB)", "their names: delta, epsilon"),
    # budgets
    ("fa.Accountant(target_epsilon=3, target_delta=1e-5)", "did you mean 'delta'"),
    *(
        (f"fa.Accountant({word}=3, delta=1e-5)", "did you mean 'epsilon'")
        for word in ("target_epsilon", "max_epsilon", "eps")
    ),
    ("fa.Accountant(epsilon=3, delta=1e-5, accountant=fa.RDP())", "did you mean 'filter'"),
    *((f"fa.Accountant(3, 1e-5).{word}", "to_json() has all of it") for word in ("to_dict", "save")),
    ("fa.Accountant(3, 1e-5).reset", "a new Accountant begins at 0"),
    ("fa.Accountant(3, 1e-5).compose(JOB, steps=2)", "job * count"),
    # a number that another verb gives, or that there is not
    ("fa.calibrate(fa.Gaussian, target_epsilon=1.0, delta=1e-5)", "did you mean 'epsilon'"),
    ("fa.RDP(alphas=[2, 3])", "did you mean 'orders'"),
    *((f"fa.epsilon(JOB, 1e-5, {word}=1)", "fastacct.epsilon_bounds") for word in ("bounds", "lower")),
    ("fa.epsilon(JOB, 1e-5, tol=1e-6)", "no tolerance"),
    ("fa.epsilon(JOB, 1e-5, method='rdp')", "did you mean 'accountant'"),
    ("fa.epsilon(JOB, delta=1e-5, count=10)", "job * count"),
    ("fa.epsilon(GAUSSIAN, steps=10, delta=1e-5)", "job * count"),
    ("fa.epsilon(JOB, epsilon=1.0)", "fastacct.delta(job, epsilon=...)"),
    ("fa.delta(JOB, delta=1e-5)", "fastacct.epsilon(job, delta=...)"),
    ("fa.dpsgd.job(**RUN, delta=1e-5)", "fastacct.epsilon(job, delta=...)"),
    ("fa.dpsgd.privacy_curve", "fastacct.curve.privacy_curve(job)"),
    ("fa.plot.privacy_curve", "fastacct.plot.privacy_curves(job)"),
    ("fa.tradeoff(JOB, alpha=[0.1, 0.2])", "did you mean 'fpr'"),
    *(
        (f"fa.dpsgd.epsilon(**RUN, delta=1e-5, {word}=1)", cure)
        for word, cure in (
            ("clip", "noise is given in its units"),
            ("learning_rate", "no number depends on it"),
            ("seed", "no number"),
            ("user_level", "job.group(size)"),
            ("mechanism", "fastacct.Laplace(2.0) * 100"),
        )
    ),
    *((f"JOB.{word}", "a job's blocks are {mechanism: count}") for word in ("steps", "mechanisms", "items")),
    *(
        (f"fa.{word}", cure)
        for word, cure in (
            ("Subsampled", "write .poisson(sample_rate)"),
            ("Compose", "job + other, job * count"),
            ("advanced_composition", "fastacct.textbook.composition.advanced(...)"),
            ("textbook.advanced_composition", "fastacct.textbook.composition.advanced(...)"),
            ("epsilon_to_rho", "fastacct.textbook.convert.pure_to_zcdp(epsilon)"),
            ("renyi", "did you mean 'rdp'"),
            ("lira", "did you mean 'tpr_at_fpr'"),
            ("hockey_stick", "did you mean 'delta'"),
            ("privacy_budget", "did you mean 'Accountant'"),
            ("version", "fastacct.__version__"),
            ("set_threads", "threads= in the call"),
            ("compare", "fastacct.plot.tradeoff({name: job})"),
        )
    ),
    ("fa.Process([GAUSSIAN, LAPLACE])", "write job + other * count"),
    # of what is returned
    ("fa.report(GAUSSIAN, delta=1e-5).to_html", "render(format) has the text"),
    ("fa.report(GAUSSIAN, delta=1e-5, format='html')", "render(format)"),
    ("fa.report(GAUSSIAN)", "delta is missing"),
    ("fa.curve.privacy_curve(GAUSSIAN, points=3).plot", "fastacct.plot.privacy_curves(job)"),
    ("fa.plot.tradeoff(GAUSSIAN, title='x')", "figure.axes[0]"),
    ("fa.plot.epsilon_over_epochs(**RUN, delta=1e-5)", "takes several, as range(1, 31)"),
]
"""With the names that tests/verbs/test_natural_calls.py gives to a run and to jobs."""
