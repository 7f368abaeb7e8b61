"""Which page stands where on the site: below each page, the pages of its list of contents, in their order."""

from pathlib import Path

DOCS = Path(__file__).parents[1]

CONTENTS = {
    "docs/README": {
        "How-to": "docs/howto/README",
        "Learn": "docs/course/README",
        "Reference": "docs/reference/README",
        "Trust": "docs/trust",
        "Develop": "docs/develop",
    },
    "docs/howto/README": [
        "docs/howto/noise",
        "docs/explorer",
        "docs/loaders",
        "docs/howto/check_loop",
        "docs/relations",
        "docs/howto/pipeline",
        "docs/howto/budget",
        "docs/howto/guarantee",
        "docs/attacks",
        "docs/audit",
        "docs/certificates",
        "docs/sweeps",
        "docs/reports",
        "docs/howto/training",
        "docs/howto/opacus",
        "docs/howto/jax",
        "docs/howto/dp_accounting",
        "docs/backends/README",
        "docs/choosing",
        "docs/utility",
        "docs/plot",
        "docs/notebooks/README",
        "docs/faq",
    ],
    "docs/backends/README": [
        "docs/backends/dp_accounting",
        "docs/backends/opacus",
        "docs/backends/jax_privacy",
        "docs/backends/tf_privacy",
        "docs/backends/prv_accountant",
        "docs/backends/autodp",
        "docs/backends/riskcal",
        "docs/backends/flower",
        "docs/backends/opendp",
        "docs/backends/diffprivlib",
        "docs/backends/pipelinedp",
        "docs/backends/jobs",
    ],
    "docs/notebooks/README": [
        "docs/notebooks/first_number",
        "docs/notebooks/opacus_run",
        "docs/notebooks/sweep",
        "docs/notebooks/pipeline",
        "docs/notebooks/own_mechanism",
        "docs/notebooks/audit",
    ],
    "docs/course/README": [
        "docs/course/1_what_privacy_means",
        "docs/course/2_mechanisms",
        "docs/course/3_composition",
        "docs/course/4_renyi_zcdp_gdp",
        "docs/course/5_dp_sgd",
        "docs/course/6_streams_and_networks",
        "docs/notation",
        "docs/references",
    ],
    "docs/reference/README": [
        "docs/mechanisms",
        "docs/processes",
        "docs/cli",
        "docs/backends/c",
        "docs/reference/examples",
    ],
    "docs/trust": [
        "README",
        "docs/guarantees",
        "docs/check",
        "docs/backends/conformance",
        "docs/published",
        "docs/samplers",
        "docs/accuracy",
        "bench/RESULTS",
    ],
    "docs/develop": [
        "docs/support",
        "docs/deprecations",
        "SECURITY",
        "CONTRIBUTING",
        "docs/design",
        "docs/adding_a_mechanism",
        "docs/algorithms/README",
        "CHANGELOG",
    ],
    "docs/algorithms/README": {
        "Arithmetic": "docs/algorithms/arithmetic",
        "Rényi divergence by quadrature": "docs/algorithms/quadrature",
        "Rényi divergence by a series": "docs/algorithms/series",
        "Log-moments at complex orders": "docs/algorithms/log_moments",
        "The capped line": "docs/algorithms/line",
        "Losses that are data": "docs/algorithms/panels",
        "Masses between losses": "docs/algorithms/masses",
        "Rays and lattices": "docs/algorithms/rays",
        "The contour integral": "docs/algorithms/contour",
        "Compiled mechanisms": "docs/algorithms/compiled",
        "Compositions on a grid": "docs/algorithms/grid",
        "Atoms beside a small Gaussian": "docs/algorithms/smoothed",
        "A loss of which deltas are known": "docs/algorithms/nested",
        "Random allocation": "docs/algorithms/allocation",
        "Batches and groups": "docs/algorithms/batches",
        "Networks": "docs/algorithms/networks",
        "Conversions": "docs/algorithms/conversion",
        "Order search": "docs/algorithms/order_search",
        "Calibration": "docs/algorithms/calibration",
    },
}
"""Titles of the sections, or of the pages themselves where none are given."""


def unlisted() -> list[str]:
    """Pages of docs/ that stand in no list yet: they come last among the how-to pages."""
    listed = {one for below in CONTENTS.values() for one in (below.values() if isinstance(below, dict) else below)}
    pages = {
        f"docs/{page.relative_to(DOCS).with_suffix('').as_posix()}"
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
    }
    return sorted(pages - listed - {"docs/README"})


def toctree(page: str, more: dict[str, list[str]] | None = None) -> str:
    """The directives that list the contents of a page, hidden: the page itself says in words what there is."""
    below = CONTENTS.get(page, {})
    titles = below.items() if isinstance(below, dict) else [("", one) for one in below]
    rows = [f"{title} </{one}>" if title else f"/{one}" for title, one in titles]
    rows += [f"/{one}" for one in unlisted()] if page == "docs/howto/README" else []
    lists = {"": rows, **{title: [f"/{one}" for one in pages] for title, pages in (more or {}).items()}}
    made = ""
    for title, entries in lists.items():
        caption = f":caption: {title}\n" if title else ""
        made += f"\n\n```{{toctree}}\n:hidden:\n{caption}\n" + "\n".join(entries) + "\n```\n" if entries else ""
    return made
