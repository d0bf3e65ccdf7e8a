"""`llms.txt` beside the pages: what each is about, for readers that are programs."""

from pathlib import Path
from typing import Any

HEAD = """# owlfi

> Fit simulators to data with far fewer simulator runs: simulated points are weighted optimally, so
> that the maximum mean discrepancy (MMD) to the data is known from dozens of runs.

A simulator is `owlfi.Simulator(function_of_theta_and_u, distribution_of_u, names, prior=prior)`, or
`owlfi.Simulator.from_random(function_of_theta_and_rng, names, prior=prior)` as it is written. With
data x, `problem = owlfi.Problem(simulator, x)` and `rule = owlfi.OptimallyWeighted(m=128)`, every
method is called as `method(jax.random.key(0), problem, rule)`: `owlfi.minimum_distance` gives an
estimate with standard errors, `owlfi.posterior_bootstrap`, `owlfi.mmd_bayes`,
`owlfi.pseudo_marginal`, `owlfi.rejection_abc` and `owlfi.sequential_abc` give posterior draws.
`result.summary()` has the numbers and what to doubt, `owlfi.report(result, "report.html")` a page.

"""


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}


def write(app: Any, failed: Exception | None) -> None:
    """One line for each page, in the order of the contents."""
    if failed or app.builder.format != "html":
        return
    titles = app.env.titles
    lines = [f"- [{titles[name].astext()}]({name}.html){_about(app, name)}" for name in _order(app)]
    text = HEAD + "## Pages\n\n" + "\n".join(lines) + "\n"
    Path(app.outdir, "llms.txt").write_text(text)


def _order(app: Any) -> list[str]:
    found: list[str] = []
    waiting = [app.config.root_doc]
    while waiting:
        name = waiting.pop(0)
        if name not in found:
            found.append(name)
            waiting = [*app.env.toctree_includes.get(name, ()), *waiting]
    return found


def _about(app: Any, name: str) -> str:
    """The first words of a page."""
    from docutils import nodes

    paragraphs = app.env.get_doctree(name).findall(nodes.paragraph)
    plain = (p.astext() for p in paragraphs if not isinstance(p.parent, nodes.entry))
    text = next(plain, "").replace("\n", " ")
    return f": {text[:200]}" if text else ""
