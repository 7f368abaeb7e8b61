"""All public functions, classes and their methods, and a good call of each: found by walking, not listed."""

import functools
import inspect
import types

import fastacct as fa

GAUSSIAN = fa.Gaussian(2.0)
GOOD = {  # by the name of a parameter
    "job": GAUSSIAN,
    "mechanism": GAUSSIAN,
    "jobs": {"one": GAUSSIAN},
    "run": fa.curve.Run(2.0, 0.1, 9),
    "build": fa.Gaussian,
    "delta": 1e-5,
    "epsilon": 1.0,
    "orders": 2.0,
    "order": 2.0,
    "divergence": 0.1,
    "fpr": 0.1,
    "prior": 0.3,
    "members": 0.3,
    "noise": [2.0],
    "noise_multiplier": 2.0,
    "strategy": [1.0, 0.5],
    "low": -1.0,
    "high": 5.0,
    "clip": 1.0,
    "k": 2,
    "records": 100,
    "bins": 3,
    "steps": 9,
    "count": 2,
}
DPSGD = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 9}
ALLOCATED = {"noise_multiplier": 2.0, "records": 100, "batch_size": 10, "epochs": 2, "sampling": "allocation"}
OPEN = {
    fa.report: dict.fromkeys(("neighbors", "sampling", "bins", "accountant")),
}
"""Functions with `**keywords` that no signature spells out, and the words among these."""
CALLS = {
    fa.plan: {"epsilon": 3.0, "delta": 1e-5, "batch_size": [10], "records": 100, "epochs": [1]},
    fa.report: {"delta": 1e-5, **DPSGD},
    fa.guarantee: {"delta": 1e-5, **DPSGD},
    fa.plot.privacy_curves: DPSGD,
    fa.plot.tradeoff: DPSGD,
    fa.plot.privacy_loss: DPSGD,
    fa.plot.budget: {"epsilon": 3.0, "delta": 1e-5, **DPSGD},
    fa.curve.privacy_curve: DPSGD,
    fa.curve.tradeoff_curve: DPSGD,
    fa.network_gain: {"mechanism": fa.RandomWalk(8.0, 3), "delta": 1e-5},
    fa.curve.accuracy_curve: {"mechanism": fa.Gaussian, "noise": [2.0], "delta": 1e-5},
    fa.sensitivity.matrix: {"strategy": [1.0, 0.5], "steps": 9},
    fa.MatrixGaussian: {"own": (1.0, 1.0), "classes": ((3, 0.1),), "noise_multiplier": 2.0, "shared": 0.0, "bins": 3},
}
"""Calls that the names of parameters do not say."""
for _audit in (fa.audit.scores([1.0], [0.0]), fa.audit.one_run(9, 5, 4), fa.audit.sequential([True], [False])):
    for _name, _given in {
        "epsilon": {"delta": 1e-5},
        "refutes": {"job": GAUSSIAN},
        "noise": {"build": fa.Gaussian},
        "wealth": {"epsilon": 1.0, "delta": 1e-5},
        "refuted_after": {"epsilon": 1.0, "delta": 1e-5},
    }.items():
        if hasattr(_audit, _name):
            CALLS[getattr(type(_audit), _name)] = {"self": _audit, **_given}
CALLS[fa.audit.plan] = {"job": GAUSSIAN, "canaries": 100, "delta": 1e-5}
CALLS[fa.audit.compare] = {"audit": fa.audit.one_run(9, 5, 4), "job": GAUSSIAN, "delta": 1e-5}


def public():
    """All (path, function or class), once each; of methods those of an instance where one is known."""
    seen, found = set(), []

    def walk(path, thing):
        if isinstance(thing, types.ModuleType):
            if thing.__name__.startswith("fastacct"):
                names = getattr(thing, "__all__", None) or [n for n in vars(thing) if not n.startswith("_")]
                for name in names:
                    walk(f"{path}.{name}", getattr(thing, name))
            return
        if not callable(thing) or thing in seen or not (getattr(thing, "__module__", "") or "").startswith("fastacct"):
            return
        seen.add(thing)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            return
        found.append((path, thing))
        if isinstance(thing, type):
            for name in dir(thing):
                if not name.startswith("_") and inspect.isroutine(inspect.getattr_static(thing, name)):
                    walk(f"{path}.{name}", getattr(thing, name))

    for name in fa.__all__:
        walk(f"fa.{name}", getattr(fa, name))
    return found


def parameters_of(function):
    """Names of the parameters, those of open keywords among them."""
    known = {name for name, one in inspect.signature(function).parameters.items() if one.kind != one.VAR_KEYWORD}
    return known | set(OPEN.get(function, ()))


def good_call(path, function, word):
    """The function with good arguments but for `word`; of dpsgd a run, which `bins` makes one of allocation."""
    if function in CALLS:
        given = dict(CALLS[function])
        if word == "bins" and function is not fa.plan:
            given = {name: given[name] for name in ("delta", "epsilon") if name in given} | ALLOCATED
        elif word == "bins":
            given |= {"sampling": "allocation"}
    else:
        needed = inspect.signature(function).parameters.values()
        given = {
            one.name: GAUSSIAN if one.name == "self" else GOOD[one.name]
            for one in needed
            if one.default is one.empty and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        }
        if path.startswith("fa.dpsgd.") or function is fa.sweep:
            wanted = path.rpartition(".")[2]
            run = ALLOCATED if word == "bins" and wanted not in ("sample_rate", "steps") else DPSGD
            target = {name: given[name] for name in ("delta", "epsilon", "orders") if name in given}
            target = target or ({} if function is fa.dpsgd.job else {"delta": 1e-5})
            given = target | {name: value for name, value in run.items() if name != wanted}
        elif function is fa.explain or function is fa.calibrate:
            given |= {"delta": 1e-5} | ({"epsilon": 1.0} if function is fa.calibrate else {})
    if "members" in inspect.signature(function).parameters:  # which `prior` still stands for
        given["members"] = GOOD["members"]
    given.pop(word, None)
    return functools.partial(function, **given)


def default_of(function, word):
    """The default of a parameter."""
    one = inspect.signature(function).parameters.get(word)
    return one.default if one is not None else inspect.Parameter.empty
