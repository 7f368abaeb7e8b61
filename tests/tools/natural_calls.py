"""Calls that people wrote, and a part of what each is refused with: what to write instead."""

JOBS = ("GAUSSIAN", "LAPLACE", "JOB")
MORE = [
    # operators, modules, arguments without names
    *((f"GAUSSIAN {sign} LAPLACE", "job + other, or job * count") for sign in ("@", "-", "|", "&")),
    *((f"{job} {sign} 100", "job + other, or job * count") for job in ("GAUSSIAN", "JOB") for sign in ("**", "/")),
    *((f"{job}.poisson({word}=0.01)", "did you mean 'sample_rate'") for job in JOBS for word in ("q", "rate")),
    ("fa.Gaussian(1.0).fixed_size(batch=50, n=1000)", "did you mean 'batch_size'"),
    ("fa.Gaussian(1.0).with_replacement(batch_size=50, records=1000)", "did you mean 'draws'"),
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
    ("fa.utility(LAPLACE, 0.95)", "takes 1 argument without names; their names: mechanism"),
    ("fa.sweep(JOB)", "their names: delta, epsilon"),
    # a keyword for what is a value here
    *(
        (f"fa.dpsgd.epsilon(**FIXED, delta=1e-5, {word}=True)", cure)
        for word, cure in (
            ("shuffle", "write sampling='shuffled', with neighbors="),
            ("replacement", "write sampling='with_replacement'"),
            ("poisson", "write sampling='poisson', which is the default"),
            ("replace_one", "write neighbors='replace_one'"),
            ("rdp", "write accountant=fastacct.RDP()"),
            ("n_iter", "did you mean 'steps'"),
        )
    ),
    ("fa.dpsgd.epsilon(**FIXED, delta=1e-5, with_replacement=True)", "write sampling='with_replacement'"),
    (
        "fa.dpsgd.epsilon(sigma=1.1, sampling_ratio=0.01, T=9, delta=1e-5)",
        "'sampling_ratio' (did you mean 'sample_rate'?)",
    ),
    ("fa.DPSGD(**FIXED)", "did you mean 'dpsgd.job'"),
    ("fa.from_opacus({})", "fastacct.compat.jobs.from_opacus(state)"),
    ("GAUSSIAN.fixed_size(n=1000, m=10)", "'m' (did you mean 'batch_size'?), and 'n' (did you mean 'records'?)"),
    ("fa.Randomised(1.0)", "did you mean 'RandomizedResponse'"),
    ("fa.zero_concentrated(0.1)", "did you mean 'ZCDP'"),
    ("fa.attack_advantage(JOB)", "did you mean 'advantage'"),
    ("fa.epsilon(JOB, delta=1e-5, conversion='optimal')", "write accountant=fastacct.RDP(conversion=...)"),
    ("fa.Accountant(3, 1e-5, mode='rdp')", "did you mean 'filter'"),
    ("fa.audit.scores([0.0], [1.0], alpha=0.05)", "did you mean 'confidence'"),
    ("fa.sensitivity.histogram(l2=True)", "did you mean 'norm'"),
    ("GAUSSIAN.poisson(batch_size=50, records=1000)", "write sample_rate=batch_size / records"),
    ("GAUSSIAN.poisson(50, 1000)", "as sample_rate=0.01, or batch_size / records"),
    ("fa.dpsgd.compute_epsilon(**FIXED, delta=1e-5)", "did you mean 'epsilon'"),
    ("fa.privacy_spent(JOB, delta=1e-5)", "write fastacct.epsilon(job, delta=...)"),
    ("fa.epsilon_lower_bound(JOB, delta=1e-5)", "did you mean 'epsilon_lower'"),
    ("fa.audit.one_run(n=1000, guesses=200, correct=190)", "'correct' (did you mean 'right'?), and 'n' (did you mean"),
    ("SWEEP.to_csv('a.csv')", "compute().to_dataframe()"),
    ("fa.Accountant(3, 1e-5).epsilon_remaining", "did you mean 'remaining'"),
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
    *((f"JOB.{word}", "a job's blocks are {mechanism: count}") for word in ("steps", "noise_multiplier", "items")),
    *(
        (f"fa.{word}", cure)
        for word, cure in (
            ("Subsampled", "write .poisson(sample_rate)"),
            ("Compose", "job + other, job * count"),
            ("advanced_composition", "fastacct.textbook.composition.advanced(...)"),
            ("textbook.advanced_composition", "fastacct.textbook.composition.advanced(...)"),
            ("epsilon_to_rho", "fastacct.textbook.convert.pure_to_zcdp(epsilon)"),
            ("renyi", "did you mean 'rdp'"),
            ("Tree", "did you mean 'TreeAggregation'"),
            ("sensitivity.l2", "did you mean 'clipped'"),
            ("audit.clopper_pearson", "fastacct.audit.one_run(...)"),
            ("Accountant(3, 1e-5).epsilon_spent", "spent() is what is spent"),
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
    # pictures, as of several jobs
    *(
        (f"fa.plot.{word}(JOB, GAUSSIAN)", "several jobs: give a list, [job, other]")
        for word in ("tradeoff", "privacy_curves")
    ),
    *((f"fa.plot.tradeoff(JOB, {word}=1)", "figure.axes[0]") for word in ("label", "labels", "log")),
    ("fa.plot.tradeoff(JOB, ax=None)", "did you mean 'axis'"),
    *((f"fa.plot.{word}", "did you mean 'privacy_curves'") for word in ("epsilon", "delta", "privacy_profile")),
    *((f"fa.plot.{word}", "did you mean 'epsilon_grid'") for word in ("heatmap", "sweep")),
    ("fa.plot.epsilon_over_steps", "did you mean 'epsilon_over_epochs'"),
    *(
        (f"fa.curve.{word}", cure)
        for word, cure in (("roc", "tradeoff_curve"), ("delta", "did you mean 'privacy_curve'"))
    ),
    ("fa.curve.privacy_curve(GAUSSIAN, points=3).to_csv", "fastacct.curve.write_csv([curve], path)"),
    ("fa.curve.privacy_curve(GAUSSIAN, points=3).to_dataframe", "pandas.DataFrame(curve.points())"),
    # attacks and losses
    *((f"fa.tpr_at_fpr(JOB, 0.01, {word}=0.5)", "fastacct.bayes_risk") for word in ("prior", "members")),
    ("fa.bayes_risk(JOB)", "members is missing"),
    ("fa.fpr_at_tpr(JOB, 0.5)", "did you mean 'tpr_at_fpr'"),
    ("fa.ppv(JOB, 0.01, 0.1)", "did you mean 'positive_predictive_value'"),
    ("fa.reconstruction_risk", "did you mean 'tpr_at_fpr'"),
    ("fa.total_variation", "did you mean 'advantage'"),
    ("fa.advantage(JOB, 0.5)", "takes 1 argument without names"),
    ("fa.gdp(JOB, delta=1e-5)", "did you mean 'delta_floor'"),
    *(
        (f"fa.privacy_loss(GAUSSIAN).{word}", cure)
        for word, cure in (
            ("std", "did you mean 'variance'"),
            ("median", "did you mean 'quantile'"),
            ("cdf", "did you mean 'exceeds'"),
            ("pdf", "did you mean 'exceeds'"),
            ("max", "divergence(math.inf)"),
            ("plot", "fastacct.plot"),
        )
    ),
    # errors
    *((f"fa.utility(LAPLACE).{word}", "did you mean 'root_mean_square'") for word in ("rmse", "std")),
    ("fa.utility(LAPLACE).mse", "did you mean 'mean_square'"),
    ("fa.utility(LAPLACE).median", "did you mean 'quantile'"),
    ("fa.utility(JOB)", "must be one mechanism"),
    # files
    *((f"fa.guarantee(GAUSSIAN, delta=1e-5).{word}", "text is the JSON") for word in ("json", "to_json")),
    ("fa.verify", "fastacct.read_guarantee(path)"),
    ("fa.certify(JOB, 1e-5)", "their names: job, delta"),
    # groups and samples
    *((f"{job}.group({word}=3)", "did you mean 'size'") for job in ("JOB", "GAUSSIAN") for word in ("k", "n", "users")),
    ("GAUSSIAN.users", "job.group(size)"),
    ("GAUSSIAN.poisson(p=0.01)", "did you mean 'sample_rate'"),
    ("GAUSSIAN.poisson(0.01, steps=100)", "job * count"),
    ("GAUSSIAN.balls_and_bins", "did you mean 'allocation'"),
    ("GAUSSIAN.shuffle", "did you mean 'shuffled'"),
    ("GAUSSIAN.uniform", "did you mean 'fixed_size'"),
    ("GAUSSIAN.allocation(steps=100, epochs=2)", ".allocation(steps) * epochs"),
    ("GAUSSIAN.sigma", "did you mean 'noise_multiplier'"),
    ("fa.Poisson", "write .poisson(sample_rate)"),
    *((f"fa.{word}", "PermuteAndFlip.from_scale") for word in ("NoisyMax", "ReportNoisyMax")),
    *((f"fa.{word}", "fastacct.jit") for word in ("custom", "from_pdf")),
    ("fa.SVT", "did you mean 'SparseVector'"),
    ("fa.Shuffled(GAUSSIAN)", "its parameters: mechanism, steps, epochs"),
    # runs
    *(
        (f"fa.dpsgd.{word}", "fastacct's own verbs take a job or a run")
        for word in ("tpr_at_fpr", "advantage", "report", "plan", "explain")
    ),
    ("fa.dpsgd.run", "did you mean 'job'"),
    *((f"fa.dpsgd.{word}", "did you mean 'noise_multiplier'") for word in ("find_noise", "sigma_for")),
    *((f"fa.dpsgd.{word}", "did you mean 'steps'") for word in ("max_steps", "max_epochs")),
    *((f"fa{word}.epsilon_upper", "did you mean 'epsilon'") for word in ("", ".dpsgd")),
    ("fa.epsilon(JOB, 1e-5, verbose=True)", "verbs print nothing"),
    ("fa.epsilon(JOB, 1e-5, sampling='poisson')", "give one job, or one run"),
    *((f"fa.{word}", "did you mean 'calibrate'") for word in ("solve", "calibrate_noise")),
    ("fa.find_noise_multiplier", "did you mean 'dpsgd.noise_multiplier'"),
    *(
        (f"fa.calibrate(fa.Gaussian, epsilon=1.0, delta=1e-5, {word}=1)", "write bracket=(low, high)")
        for word in ("bounds", "lo")
    ),
    # sweeps and plans
    ("fa.sweep(job=JOB, delta=1e-5)", "fastacct.Gaussian([1.0, 2.0])"),
    ("fa.sweep(noise_multiplier=[1, 2], sample_rate=0.05, steps=20)", "one of delta (to compute epsilon)"),
    ("fa.sweep(noise_multiplier=[1, 2], sample_rate=0.05, steps=20, deltas=[1e-5])", "did you mean 'delta'"),
    ("fa.sweep(sigma=[1, 2], sample_rate=0.05, steps=20, delta=1e-5)", "did you mean 'noise_multiplier'"),
    *((f"fa.{word}", "did you mean 'sweep'") for word in ("grid", "grid_search")),
    *((f"SWEEP.{word}", "fastacct.feasible(sweep.compute(), condition)") for word in ("best", "where", "cheapest")),
    ("SWEEP.to_netcdf", "did you mean 'save'"),
    ("SWEEP.results", "did you mean 'compute'"),
    ("fa.plan(JOB, epsilon=3, delta=1e-5)", "it chooses the run, and takes no job"),
    ("fa.plan(epsilon=3, delta=1e-5)", "missing records, batch_size, epochs"),
    ("fa.plan(**RUN, epsilon=3, delta=1e-5)", "do not give noise_multiplier"),
    # budgets
    *((f"fa.Accountant(3, 1e-5).{word}", "did you mean 'compose'") for word in ("charge", "release", "run")),
    ("fa.Accountant(3, 1e-5).can_afford", "did you mean 'would_exceed'"),
    ("fa.Accountant(3, 1e-5).total", "did you mean 'spent'"),
    *((f"fa.Accountant(3, 1e-5).{word}", "did you mean 'remaining'") for word in ("max_steps", "remaining_steps")),
    ("fa.Accountant(3, 1e-5).undo", "stays released"),
    ("fa.Accountant(3, 1e-5).left", "remaining_budget()"),
    # reports
    *((f"fa.report(GAUSSIAN, 1e-5).{word}", "render(format)") for word in ("html", "latex", "markdown", "show")),
    ("fa.report(GAUSSIAN, 1e-5).epsilon", "numbers has it"),
    *(
        (f"fa.report(GAUSSIAN, 1e-5).render({word!r})", f"did you mean {ours!r}")
        for word, ours in (("tex", "latex"), ("md", "markdown"), ("pdf", "latex"))
    ),
    ("fa.report(GAUSSIAN, 1e-5, author='x')", "did you mean 'vouched_by'"),
    ("fa.report(GAUSSIAN, 1e-5, dataset='x')", "did you mean 'data_set'"),
    *((f"fa.{word}", "render(format)") for word in ("model_card", "nist")),
    *((f"fa.{word}", "fastacct check-loop train.py") for word in ("check_loop", "check_loader")),
    ("fa.relations", "'replace_one'"),
    # the second time round
    *(
        (f"fa.dpsgd.epsilon(**RUN, delta=1e-5, {word}=1)", cure)
        for word, cure in (
            ("optimizer", "no number depends on it"),
            ("world_size", "of all workers together"),
            ("microbatch_size", "did you mean 'batch_size'"),
        )
    ),
    ("fa.dpsgd.epsilon(**RUN, delta=1e-5, neighbors='substitute_one')", "did you mean 'replace_one'"),
    ("fa.dpsgd.epsilon(**RUN, delta=1e-5, accountant='moments')", "write fastacct.RDP()"),
    ("fa.dpsgd.epsilon(**RUN, delta=1e-5, accountant=fa.PLD)", "write fastacct.PLD()"),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, batch_size=5000, records=1000, epochs=1, delta=1e-5)", "exceeds records"),
    ("fa.dpsgd.epsilon(noise_multiplier=1.0, batch_size=50, records=1000, delta=1e-5)", "missing steps"),
    ("fa.dpsgd.noise_multiplier(target=3, delta=1e-5, sample_rate=0.05, steps=20)", "did you mean 'epsilon'"),
    *((f"fa.{word}", "did you mean 'privacy_loss'") for word in ("privacy_loss_distribution", "hist")),
    *((f"fa.{word}", "fastacct.curve.privacy_curve(job)") for word in ("privacy_curve", "delta_curve")),
    *((f"fa.{word}", "did you mean 'dpsgd.steps'") for word in ("max_epochs", "max_steps")),
    *((f"fa.{word}", "did you mean 'Accountant'") for word in ("Budget", "Filter")),
    ("fa.spend", "compose(job) spends of it"),
    ("fa.Accountant(3, 1e-5).add_release", "did you mean 'compose'"),
    *((f"fa.Accountant(3, 1e-5).{word}", "print(...) shows it") for word in ("print", "summary")),
    *((f"fa.Accountant(3, 1e-5).compose(JOB, {word}=3)", "job * count") for word in ("n", "times")),
    *((f"fa.plot.{word}", cure) for word, cure in (("curve", "privacy_curves"), ("hist", "privacy_loss"))),
    ("fa.plot.epsilon_grid(SWEEP)", "did you mean 'compute'"),
    ("fa.mechanisms.list", "dir(fastacct) has the names"),
    ("fa.convert.gdp_to_dp", "fastacct.epsilon(fastacct.GDP(mu), delta=...)"),
    ("fa.audit.mia", "did you mean 'scores'"),
    ("fa.training.Callback", "fastacct.training.huggingface"),
    *((f"fa.sensitivity.{word}", "did you mean 'clipped'") for word in ("clip", "gradient")),
    ("fa.sensitivity.mean(0, 1)", "'records'"),
    ("GAUSSIAN.truncate", "at_most=..."),
    ("(GAUSSIAN * 5).shuffled", "fastacct.Gaussian(1.0).shuffled(steps=...)"),
    *((f"JOB.{word}", "fastacct.guarantee(job, delta=...).save(path)") for word in ("save", "to_json")),
    ("fa.certify(LAPLACE * 10, delta=0)", "allowed: [1e-60"),
    ("fa.Gaussian('1.0')", "must be a number"),
    ("fa.Gaussian()", "missing a required argument: 'noise_multiplier'"),
    ("fa.training.Meter(**RUN, delta=1e-5)", "epochs is what a meter counts"),
    # the third time round
    *(
        (f"fa.epsilon({word}=1.0, sample_rate=0.05, steps=20, delta=1e-5)", "did you mean 'noise_multiplier'")
        for word in ("noise_scale", "noise_std")
    ),
    *(
        (f"fa.epsilon(noise_multiplier=1.0, sample_rate=0.05, {word}=20, delta=1e-5)", "did you mean 'steps'")
        for word in ("rounds", "updates")
    ),
    *(
        (f"fa.epsilon(**RUN, delta=1e-5, sampling={word!r})", cure)
        for word, cure in (
            ("balls_in_bins", "did you mean 'allocation'"),
            ("swor", "did you mean 'fixed_size'"),
        )
    ),
    *(
        (f"fa.epsilon(**RUN, delta=1e-5, {word}=1)", cure)
        for word, cure in (
            ("round", "round(..., 2) leaves two"),
            ("device", "in double precision"),
            ("eps_error", "no tolerance"),
            ("replacement", "write sampling='with_replacement'"),
            ("gradient_accumulation", "of all workers together"),
        )
    ),
    *(
        (f"fa.{word}", cure)
        for word, cure in (
            ("compute_rdp", "did you mean 'rdp'"),
            ("moments_accountant", "did you mean 'RDP'"),
            ("make_private", "after register()"),
            ("Sequential", "job + other, job * count"),
            ("RR", "did you mean 'RandomizedResponse'"),
            ("fnr", "did you mean 'tradeoff'"),
            ("federated", "a client is a record"),
            ("prove", "did you mean 'certify'"),
            ("plot.pld", "fastacct.privacy_loss(job)"),
        )
    ),
    *((f"{one} + 1", "job + other, or job * count") for one in ("JOB", "GAUSSIAN")),
    ("JOB + [LAPLACE]", "job + other, or job * count"),
    ("JOB.then(GAUSSIAN)", "job + other, job * count"),
    ("GAUSSIAN.allocation(10, 2)", "their names: steps, epochs, bins, selected"),
    ("GAUSSIAN.allocation(steps=10, k=2)", "did you mean 'selected'"),
    ("fa.Parallel([JOB, GAUSSIAN])", "give several one by one"),
    ("fa.Accountant(3, 1e-5).load", "Accountant.from_json(text)"),
    *((f"fa.{word}(GAUSSIAN, delta=1e-5).write", "did you mean 'save'") for word in ("report", "guarantee")),
    ("fa.plot.tradeoff(JOB, save='x.png')", "savefig(path)"),
    ("fa.plot.plan(JOB)", "must be what fastacct.plan(...) returns"),
    ("fa.privacy_loss(GAUSSIAN).samples(10)", "quantile(level)"),
    ("fa.dpsgd.noise_multiplier(epsilon=3, sample_rate=0.05, steps=20)", "delta is missing; allowed: [0, 1]"),
    ("fa.AnalyticGaussian(1.0)", "its parameters: none"),
]
"""With the names that tests/verbs/test_natural_calls.py gives to a run and to jobs."""

ANSWERED_TOO = [
    *("fa.plot.privacy_curves(**RUN, points=5)", "fa.plot.tradeoff(**RUN)", "fa.plot.tradeoff([JOB, GAUSSIAN])"),
    *("fa.plot.tradeoff({'run': RUN, 'one': GAUSSIAN})", "fa.plot.tradeoff(GAUSSIAN).savefig"),
    "fa.plot.epsilon_over_epochs(**{**RUN, 'epochs': range(1, 4)}, delta=1e-5)",
    "fa.plot.noise_map(records=1000, batch_size=[20, 50], epochs=[1, 2], epsilon=3, delta=1e-5)",
    "fa.plan(records=1000, batch_size=[20, 50], epochs=[1, 2], epsilon=3, delta=1e-5)",
    *("fa.privacy_loss(GAUSSIAN).variance", "fa.privacy_loss(GAUSSIAN).quantile(0.99)"),
    *("fa.guarantee(GAUSSIAN, delta=1e-5).to_dict()", "fa.guarantee(GAUSSIAN, delta=1e-5).epsilon"),
    *("fa.guarantee(**RUN, delta=1e-5)", "fa.certify(GAUSSIAN, delta=1e-5)", "fa.utility(LAPLACE).quantile(0.05)"),
    *("GAUSSIAN.group(size=3)", "GAUSSIAN.shuffled(100)", "100 * GAUSSIAN", "GAUSSIAN * 0", "len(JOB)", "list(JOB)"),
    *("fa.epsilon(JOB, 0)", "fa.epsilon(JOB, 1)", "fa.delta(JOB, [0.1, 1.0])", "JOB == JOB"),
    "fa.epsilon(**RUN, delta=1e-5, sampling='shuffled', neighbors='zero_out')",
    "fa.dpsgd.steps(epsilon=3, delta=1e-5, noise_multiplier=1.0, records=1000, batch_size=50)",
    "fa.dpsgd.sample_rate(epsilon=3, delta=1e-5, noise_multiplier=1.0, steps=100)",
    *(
        "SWEEP.compute().to_dataframe()",
        "fa.feasible(SWEEP.compute(), 'epsilon <= 3')",
        "fa.Accountant(9, 1e-5).copy()",
    ),
    *("fa.Accountant(30, 1e-5).budget", "fa.Accountant(30, 1e-5).to_json()", "fa.report(GAUSSIAN, 1e-5).summary"),
    *("fa.report(GAUSSIAN, 1e-5).render()", "fa.report(GAUSSIAN, 1e-5, data_set='x', unit='person')"),
    *("fa.curve.privacy_curve(**RUN)", "fa.curve.tradeoff_curve(GAUSSIAN, fpr=[0.1])", "fa.PureDP(0.5) * 10"),
    *(
        "fa.epsilon(JOB + LAPLACE * 3, 1e-6)",
        "fa.epsilon(GAUSSIAN * 10 + LAPLACE.poisson(0.1) * 5, 1e-6)",
        "hash(GAUSSIAN)",
    ),
    *("fa.dpsgd.noise_multiplier(epsilon=[1, 3], delta=1e-5, sample_rate=0.05, steps=20)", "repr(JOB)"),
    *("SWEEP.estimate()", "SWEEP.size", "SWEEP.axes", "fa.Accountant(30, 1e-5).ledger", "fa.Gaussian([1.0, 2.0]) * 3"),
    *("fa.plot.privacy_loss(GAUSSIAN)", "fa.loader_guide('grain')", "fa.sensitivity.mean(0, 1, records=100)"),
    *(
        "fa.utility(LAPLACE, dimension=3).tail(1.0)",
        "GAUSSIAN.fixed_size(batch_size=10, records=100)",
        "fa.Gaussian(0)",
    ),
    *("fa.loader_guide('pytorch', shuffle=True)", "fa.rdp(JOB, [2, 4, 8])", "fa.from_pmf([0.5, 0.5], [0.4, 0.6])"),
]

UNHELPED_TOO = [
    *(f"fa.epsilon(**RUN, delta=1e-5, sampling={word!r})" for word in ("replacement", "sequential", "none")),
    *("fa.epsilon(JOB, 1e-5, neighbors='user')", "fa.privacy_loss(JOB).mean()", "JOB[0]"),
    *(
        "fa.Accountant(3, 1e-5) + JOB",
        "SWEEP['epsilon']",
        "fa.utility.rmse",
    ),
    *("JOB.copy", "JOB.name", "fa.plot.budget(fa.Accountant(3, 1e-5))", "fa.report(GAUSSIAN, 1e-5, language='de')"),
    *("fa.utility(GAUSSIAN, dim=3)", "fa.dpsgd.epsilon(**RUN, delta=1e-5, sampling='random')"),
    *("fa.guarantee(JOB, 1e-5)", "fa.Accountant(budget=3)", "GAUSSIAN.variance"),
    *(
        "fa.explain(JOB, delta=1e-5).text",
        "fa.curve.privacy_curve(JOB, n=10)",
        "fa.Accountant(3, 1e-5).noise_multiplier",
    ),
    "fa.calibrate(fa.Gaussian, mu=1.0)",
]
"""Refused without the cure, or with a wrong one."""
