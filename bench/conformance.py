"""Ask every accountant that is installed the cases of `fastacct.conformance`, and write the table and the picture.

    python -m bench.conformance                    all of them: docs/backends/conformance.md and its picture
    python -m bench.conformance --only opacus      some of them, to the screen
    python -m bench.conformance --only prv_accountant --again
                                                   their rows and their panels anew; the others stay as they are

Each accountant is a process of its own, with a limit of memory and one of time for an answer. The functions below give
accountants with interfaces of their own the one of a plain function.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import fastacct as fa
from bench import dark
from bench.stamp import measured_with
from fastacct.conformance import Case, Result, load
from fastacct.conformance.picture import COLORS, mark, panel, pictures

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "backends" / "conformance.md"
PICTURE: Final = ROOT / "docs" / "images" / "conformance.svg"
BEGIN, END = "<!-- table of bench.conformance -->\n", "<!-- end of the table -->\n"
MEMORY: Final = 8 << 30
SECONDS: Final = 60
ALIKE: Final = ("fastacct, accountant of dp_accounting", "dp-accelerator")


class Peer(NamedTuple):
    """An accountant: how the table calls it, what is asked, and the package that it comes from."""

    name: str
    accountant: str
    package: str


PEERS: Final = (
    Peer("fastacct", "fastacct:epsilon", "fastacct"),
    Peer("fastacct, accountant of dp_accounting", "fastacct.compat.dp_accounting:FastAccountant", "dp-accounting"),
    Peer("dp_accounting PLD", "dp_accounting.pld:PLDAccountant", "dp-accounting"),
    Peer("dp_accounting RDP", "dp_accounting.rdp:RdpAccountant", "dp-accounting"),
    Peer("Opacus rdp", "opacus.accountants:RDPAccountant", "opacus"),
    Peer("Opacus prv", "opacus.accountants:PRVAccountant", "opacus"),
    Peer("Opacus gdp", "opacus.accountants:GaussianAccountant", "opacus"),
    Peer("prv_accountant", "bench.conformance:prv_accountant", "prv-accountant"),
    Peer("dp-accelerator", "bench.conformance:dp_accelerator", "dp-accelerator"),
    Peer("autodp RDP", "bench.conformance:autodp_rdp", "autodp"),
)


# --- accountants as functions -----------------------------------------------------------------------------------------


def releases(job: fa.Process) -> Iterable[tuple[str, float, float, int]]:
    """(kind, noise multiplier, sample rate, count) of every block; NotImplementedError for what is neither."""
    for mechanism, count in job:
        sampled = mechanism.sampled_gaussian("remove")
        if sampled is not None:
            yield "gaussian", float(sampled.noise), float(sampled.rate), int(count)
        elif isinstance(mechanism, fa.Laplace):
            yield "laplace", float(mechanism.noise_multiplier), 1.0, int(count)
        else:
            raise NotImplementedError(f"no {type(mechanism).__name__}")


def prv_accountant(job: fa.Process, delta: float) -> float:
    """The upper bound of prv_accountant, with the errors of its README."""
    from prv_accountant import LaplaceMechanism, PoissonSubsampledGaussianMechanism, PRVAccountant

    prvs: list[Any] = []
    counts: list[int] = []
    for kind, noise, rate, count in releases(job):
        if kind == "laplace":
            prvs.append(LaplaceMechanism(mu=1.0 / noise))
        else:
            prvs.append(PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate))
        counts.append(count)
    accountant = PRVAccountant(prvs=prvs, max_self_compositions=counts, eps_error=0.01, delta_error=delta / 1000.0)
    return float(accountant.compute_epsilon(delta=delta, num_self_compositions=counts)[2])


def dp_accelerator(job: fa.Process, delta: float) -> float:
    """One call of dp-accelerator for one kind of step, at the orders of its accountant."""
    from dp_accelerator import DPSGDAccountant, compute_epsilon_batch

    blocks = list(releases(job))
    if len(blocks) != 1 or blocks[0][0] != "gaussian":
        raise NotImplementedError("one kind of sampled Gaussian only")
    _, noise, rate, count = blocks[0]
    orders = DPSGDAccountant(noise_multiplier=1.0, batch_size=1, dataset_size=2).orders
    return float(compute_epsilon_batch(rate, noise, [count], orders, delta)[0])


def autodp_rdp(job: fa.Process, delta: float) -> float:
    """The composition of autodp's mechanisms, by Rényi DP."""
    from autodp import mechanism_zoo, transformer_zoo

    sample, mechanisms, counts = transformer_zoo.AmplificationBySampling(PoissonSampling=True), [], []
    for kind, noise, rate, count in releases(job):
        one = mechanism_zoo.LaplaceMechanism(noise) if kind == "laplace" else mechanism_zoo.GaussianMechanism(noise)
        if rate < 1.0:
            one.neighboring = "add_remove"
            one = sample(one, rate, improved_bound_flag=True)
        mechanisms.append(one)
        counts.append(count)
    return float(transformer_zoo.Composition()(mechanisms, counts).get_approxDP(delta))


# --- all of them ------------------------------------------------------------------------------------------------------


def installed(peer: Peer) -> str | None:
    """The version of its package."""
    try:
        return version(peer.package) if peer.package != "fastacct" else fa.__version__
    except PackageNotFoundError:
        return None


def asked(peer: Peer, options: Sequence[str]) -> dict[str, Any]:
    """The report of one accountant."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, "-m", "fastacct.conformance", "--accountant", peer.accountant, "--quiet"]
        command += ["--name", peer.name, "--seconds", str(SECONDS), "--json", str(out), *options]
        done = subprocess.run(command, preexec_fn=limited, capture_output=True, text=True, env=dict(os.environ))
        if done.returncode not in (0, 1):
            raise SystemExit(f"{peer.name}: {done.stderr.strip().splitlines()[-1]}")
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def results(report: dict[str, Any]) -> list[Result]:
    """Rows of a report, as the picture takes them."""
    cases: dict[str, Case] = {case.name: case for case in load()}
    return [
        Result(
            cases[row["case"]],
            row["verdict"],
            None if row["answer"] is None else float(row["answer"]),
            None if row["excess"] is None else float(row["excess"]),
            row["seconds"],
            row["message"],
        )
        for row in report["results"]
    ]


def table(reports: dict[str, tuple[str, dict[str, Any]]]) -> str:
    """Markdown: one accountant a row."""
    head = ["accountant", "version", "asked", "wrong", "too small by up to", "tight", "loose", "median excess"]
    head += ["worst excess", "infinite", "refused", "error", "median time", "slowest"]
    rows = []
    for name, (number, report) in reports.items():
        found = report["summary"]
        rows.append(
            [
                name,
                number,
                str(found["cases"] - found["not asked"]),
                f"**{found['wrong']}**",
                share(found["too small by at most"]),
                str(found["tight"]),
                str(found["loose"]),
                share(found["median excess"]),
                share(found["worst excess"]),
                str(found["infinite"]),
                str(found["refused"]),
                str(found["error"]),
                clock(found["median seconds"]),
                clock(found["slowest"]),
            ]
        )
    lines = [head, ["---", "---", *["---:"] * (len(head) - 2)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def share(value: float | None) -> str:
    """A relative size."""
    if value is None:
        return ""
    return (
        f"{value:.0e}"
        if value < 1e-4
        else f"{100 * value:.{2 if value < 0.99 else 3}g} %"
        if value < 10
        else f"{value:.3g} times"
    )


def clock(value: float | None) -> str:
    """A time."""
    return "" if value is None else f"{1000 * value:.2g} ms" if value < 0.0995 else f"{value:.3g} s"


def wrongs(reports: dict[str, tuple[str, dict[str, Any]]]) -> str:
    """Markdown: the worst wrong answers of every accountant."""
    lines = ["| accountant | case | answer | truth at least | too small by |", "|---|---|---:|---:|---:|"]
    for name, (_, report) in reports.items():
        rows = [row for row in report["results"] if row["verdict"] == "wrong"]
        for row in sorted(rows, key=lambda row: float(row["excess"]))[:4]:
            answer, low = float(row["answer"]), float(row["low"])
            lines.append(f"| {name} | {row['question']} | {answer:.6g} | {low:.6g} | {share(-float(row['excess']))} |")
    return "\n".join(lines) + "\n"


def draw(reports: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """The picture of those that differ: two of the table are like their neighbours."""
    shown = {name: results(report) for name, (_, report) in reports.items() if name not in ALIKE}
    text = pictures(shown)
    width, height = map(int, re.findall(r'width="(\d+)" height="(\d+)"', text)[0])
    text = text.replace(f'height="{height}"', f'height="{height + 24}"').replace(f' {height}"', f' {height + 24}"')
    for i, verdict in enumerate(list(COLORS)[:6]):
        x = 30 + i * (width - 40) / 6
        word = f'<text x="{x + 8}" y="{height + 14}">{verdict}</text>\n'
        text = text.replace("</svg>", f"{mark(verdict, x, height + 10, '')}{word}</svg>")
    PICTURE.write_text(re.sub("<title>.*?</title>", "", text))  # an image on a page has no hover
    dark.follow(PICTURE)


def again(reports: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Rows and panels of some accountants in place of earlier ones; the row says of which commit it is."""
    page, picture = PAGE.read_text(), PICTURE.read_text()
    for name, (number, report) in reports.items():
        stamped = {name: (f"{number}, {measured_with().partition(', ')[2]}", report)}
        row = table(stamped).splitlines()[-1]
        page, rows = re.subn(rf"^\| {re.escape(name)} \|.*$", lambda _: row, page, count=1, flags=re.M)  # noqa: B023
        if rows != 1 or report["summary"]["wrong"]:
            raise SystemExit(f"{name}: no row on the page, or wrong answers; run all of them")
        old = rf'(?<=">\n)<text [^>]*>{re.escape(name)}: .*?(?=\n</g>)'
        group = re.sub("<title>.*?</title>", "", panel(name, results(report)))
        picture, panels = re.subn(old, lambda _: group, picture, count=1, flags=re.S)  # noqa: B023
        if panels != 1 and name not in ALIKE:
            raise SystemExit(f"{name}: no panel in the picture; run all of them")
    PAGE.write_text(page)
    PICTURE.write_text(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="accountants with this in their name; nothing is written")
    parser.add_argument("--cases", default="*", help="as in fastacct.conformance; nothing is written")
    parser.add_argument("--again", action="store_true", help="write the rows and panels of --only")
    given = parser.parse_args()
    reports: dict[str, tuple[str, dict[str, Any]]] = {}
    for peer in PEERS:
        number = installed(peer)
        if number is None or given.only.lower() not in peer.name.lower():
            continue
        reports[peer.name] = number, asked(peer, ["--cases", given.cases])
        print(peer.name, reports[peer.name][1]["summary"], file=sys.stderr, flush=True)
    if given.again:
        again(reports)
        return
    text = f"{table(reports)}\nMeasured with {measured_with()}.\n\nThe largest errors of each:\n\n{wrongs(reports)}"
    if given.only or given.cases != "*":
        print(text)
        return
    draw(reports)
    with contextlib.suppress(FileNotFoundError):
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
