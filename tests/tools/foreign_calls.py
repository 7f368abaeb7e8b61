"""Calls in the words of other libraries, and a part of what each is refused with: what to write instead."""

RUN = "noise_multiplier=1.0, sample_rate=0.05, steps=20"
FOREIGN = [
    # all unknown keywords at once
    ("fa.dpsgd.epsilon(sigma=1.1, q=0.01, steps=9, delta=1e-5)", "'q' (did you mean 'sample_rate'?), and 'sigma' (did"),
    ("fa.sensitivity.mean(lower=0, upper=1, n=9)", "'lower' (did you mean 'low'?), and 'n' (did you mean 'records'?)"),
    (f"fa.dpsgd.epsilon({RUN}, delta=1e-5, unit=4, max_examples_per_user=4)", "'max_examples_per_user', 'unit' ("),
    ("fa.calibrate(fa.Gaussian, target_epsilon=1.0, target_delta=1e-5)", "'target_delta' (did you mean 'delta'?), and"),
    *(
        (f"fa.dpsgd.epsilon({RUN}, delta=1e-5, {word}=1)", cure)
        for word, cure in (
            ("clip_per_layer", "noise divided by it"),
            ("count_noise", "one more release"),
            ("return_order", "fastacct.dpsgd.best_order"),
            ("num_train_epochs", "did you mean 'epochs'"),
            ("per_device_train_batch_size", "did you mean 'batch_size'"),
            ("num_total_clients", "did you mean 'records'"),
            ("log_delta", "did you mean 'delta'"),
        )
    ),
    # names of other libraries
    *(
        (f"fa.{word}", cure)
        for word, cure in (
            ("from_dp_event", "fastacct.compat.dp_accounting.from_dp_accounting(event)"),
            ("calibrate_dp_mechanism", "fastacct.calibrate(lambda x: ..."),
            ("eps_delta_calibrator", "did you mean 'calibrate'"),
            ("apply_dp_sgd_analysis", "fastacct.compat.tf_privacy"),
            ("get_privacy_spent", "fastacct.RDPCurve(orders, values)"),
            ("eps_from_rdp", "fastacct.textbook.convert.rdp_to_epsilon"),
            ("make_zCDP_to_approxDP", "fastacct.epsilon(fastacct.ZCDP(rho)"),
            ("m.make_gaussian", "fastacct.Gaussian(scale / sensitivity)"),
            ("binary_search_param", "did you mean 'calibrate'"),
            ("AmplificationBySampling", "write .poisson(sample_rate)"),
            ("Composition", "job + other, job * count"),
            ("PureDPBudget", "did you mean 'Accountant'"),
            ("Session", "did you mean 'Accountant'"),
            ("AddMaxRows", "job.group(size)"),
            ("LaplaceTruncated", "fastacct.Laplace(scale / sensitivity)"),
            ("GaussianAnalytic", "fastacct.calibrate(fastacct.Gaussian"),
            ("GaussianSumQuery", "did you mean 'Gaussian'"),
            ("SamplingMethod", "'fixed_size' or 'shuffled'"),
            ("DpsgdTrainingAccountantConfig", "fastacct.epsilon(job, delta=...), with accountant="),
            ("dpsgd.calibrate_num_updates", "did you mean 'steps'"),
            ("bandmf", "fastacct.BandMF(noise_multiplier"),
            ("continual_counting", "did you mean 'TreeAggregation'"),
            ("MatrixFactorization", "did you mean 'MatrixGaussian'"),
            ("fl", "a client is a record"),
            ("load", "fastacct.compat.jobs.from_opacus(state)"),
            ("shuffle", "fastacct proves nothing"),
            ("partition_selection", "fastacct.ApproxDP(epsilon, delta)"),
            ("PATE", "fastacct.Gaussian(sigma / 2**0.5) * queries"),
            ("kov_composition", "fastacct.ApproxDP(epsilon, delta) * count"),
            ("pure_to_gdp", "fastacct.gdp(fastacct.PureDP(epsilon)).mu"),
            ("compare_accountants", "accountant=fastacct.RDP()"),
            ("set_default_accountant", "there are no settings"),
            ("callbacks", "fastacct.training.huggingface"),
            # by the words of a name
            ("membership_advantage", "did you mean 'advantage'"),
            ("plot_tradeoff", "did you mean 'plot.tradeoff'"),
            ("find_sigma", "did you mean 'dpsgd.noise_multiplier'"),
            ("Custom", "fastacct.from_pmf"),
            # that are not there
            ("RAPPOR", "fastacct.PureDP(epsilon)"),
            ("UnaryEncoding", "fastacct.PureDP(epsilon)"),
            ("zzz_of_nothing", "dir(fastacct) has the names"),
        )
    ),
    ("GAUSSIAN.to_rdp", "write fastacct.rdp(job, ...)"),
    ("fa.Accountant(3, 1e-5).add_gaussian", "use compose(job, count)"),
    ("fa.Accountant(3, 1e-5).split", "a budget has no shares"),
    ("fa.report(GAUSSIAN, 1e-5).to_frame", "pandas.Series(report.numbers)"),
    ("fa.report(GAUSSIAN, 1e-5, filename='x')", "save(path)"),
    # parameters of mechanisms
    ("fa.Gaussian(epsilon=1.0, delta=1e-5)", "fastacct.calibrate(fastacct.Gaussian, epsilon=..., delta=...)"),
    ("fa.Gaussian(variance=4.0)", "did you mean 'noise_multiplier'"),
    ("fa.SparseVector(epsilon=1.0, c=5)", "did you mean 'answers'"),
    ("fa.RandomizedResponse(p=0.75)", "epsilon is log(p / (1 - p) * (k - 1))"),
    ("fa.AboveThreshold(scale_threshold=2.0)", "2 / epsilon on the threshold"),
    ("fa.DiscreteGaussian(sigma=10)", "did you mean 'scale'"),
    # what is no job, and modules
    ("fa.epsilon(1e-5, GAUSSIAN)", "give the job"),
    ("fa.epsilon({'history': [(1.0, 0.1, 5)]}, 1e-5)", "history=state['history']"),
    ("fa.epsilon(SimpleNamespace(history=[]), 1e-5)", "history=accountant.history"),
    ("fa.epsilon(fa.Accountant(3, 1e-5), 1e-5)", "budget.ledger"),
    ("fa.report(1.5)", "give the job"),
    ("fa.epsilon(GAUSSIAN, LAPLACE, delta=1e-5)", "job + other"),
    ("fa.tradeoff(GAUSSIAN)", "fpr=0.01, a false-positive rate"),
    ("GAUSSIAN < LAPLACE", "compared at a delta"),
    ("fa.sensitivity('count', norm='l2')", "did you mean 'count'"),
    ("fa.audit(tpr=0.3, fpr=0.1)", "fastacct.audit.scores(...)"),
    ("fa.epsilon(GAUSSIAN, '1e-5')", "write it without quotes"),
    ("fa.calibrate('gaussian', epsilon=1.0, delta=1e-5)", "as fastacct.Gaussian"),
]

FOREIGN_COMMANDS = [
    (f"epsilon {RUN.replace(', ', ' --').replace('noise', '--noise', 1)} --delta=1e-5", None),
    ("epsilon -s 1 -q 0.01 -T 10 -d 1e-5", "-q (did you mean --sample-rate?), and -T (did you mean --steps?)"),
    ("epsilon --mechanism laplace --scale 2", "--mechanism, --scale (a job is a file"),
    ("plot --steps 10", "write fastacct curve --picture FILE"),
    ("compute_dp_sgd_privacy --N=10", "did you mean 'epsilon'"),
    ("sweep --noise-multiplier 1,2", "a sweep reads its axes from a file"),
    ("audit --tpr 0.2 --delta 1e-5", "an audit reads scores from a file"),
    ("version", "write fastacct --version"),
    ("report --steps 10 --delta 1e-5 -o x.md", "did you mean --write"),
]
"""Command lines, and a part of what is refused; None: answered."""
