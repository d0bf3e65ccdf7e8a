"""A report is one file that holds everything, for every kind of result."""

import dataclasses
import re
import sys
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import matplotlib.style
import numpy as np
import pytest

import owlfi
from gaussian import RULE, gaussian_problem
from owlfi.results.files import _KINDS
from owlfi.show import pages, plots
from owlfi.show.bins import choose_bins
from owlfi.show.words import as_label
from results_of_all_kinds import (
    RESULTS,
    WILD,
    make_calibration,
    make_check,
    make_estimate,
    make_posterior,
)


class Reader(HTMLParser):
    """What a page holds: tags with their attributes, and headings."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def read(result, tmp_path, **options):
    text = owlfi.report(result, tmp_path / "report.html", **options).read_text(encoding="utf-8")
    return text, Reader(text)


def test_all_kinds_of_results_are_here():
    assert {type(result).__name__ for result in RESULTS.values()} == set(_KINDS)


@pytest.mark.parametrize("name", RESULTS)
def test_page_is_whole_for_every_kind(name, tmp_path):
    text, page = read(RESULTS[name], tmp_path)
    assert len(text.encode()) < pages.MOST_BYTES
    assert not page.all("script")
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert all(image["alt"].strip() for image in page.all("img"))
    assert page.all("img")
    headings = page.all("th")
    assert headings
    assert {heading.get("scope") for heading in headings} == {"col", "row"}
    assert len(page.all("caption")) == len(page.all("table"))
    assert len({section["id"] for section in page.all("section")}) == len(page.all("section")) >= 4


def test_words_from_files_are_escaped(tmp_path):
    problem = gaussian_problem()
    named = owlfi.Problem(problem.simulator, problem.observed, columns=[WILD])
    doubtful = make_estimate(warnings=(WILD,), about={"method": WILD, WILD: WILD})
    text, page = read(doubtful, tmp_path, problem=named, title=WILD, code=WILD)
    assert "<script" not in text
    assert not page.all("script")
    assert sum(WILD in data for _, data in page.texts) >= 5


def test_page_tells_the_whole_story(tmp_path):
    problem = gaussian_problem()
    quadrature = RULE.quadrature(jax.random.key(0), problem)
    result = owlfi.Estimate(("mean",), jnp.array([1.3]), 0.01 * jnp.eye(1), jnp.array(0.0), 512)
    options = {"problem": problem, "rule": RULE, "quadrature": quadrature, "check": make_check(1)}
    text, page = read(result, tmp_path, **options, seconds=2.5, seed=7, code="owlfi.load('a')")
    titles = [data for tag, data in page.texts if tag == "h2" and data.strip()]
    assert titles == [
        "What was asked",
        "The data",
        "The answer",
        "What to doubt",
        "Does the fitted model give such data?",
        "Weights and certificate",
        "What it cost",
        "To get it again",
    ]
    for words in (
        "512 simulator calls",
        "2.5 seconds",
        "owlfi.load(&#39;a&#39;)",
        owlfi.__version__,
    ):
        assert words in text
    assert "Nothing was found" in text


def test_coarser_pictures_keep_a_page_small(tmp_path, monkeypatch):
    whole = len(read(make_posterior(), tmp_path)[0])
    monkeypatch.setattr(pages, "MOST_BYTES", int(0.8 * whole))
    assert len(read(make_posterior(), tmp_path)[0]) <= 0.8 * whole


def test_other_things_are_refused(tmp_path):
    with pytest.raises(ValueError, match="result must be a result of owlfi"):
        owlfi.report({"a": 1}, tmp_path / "report.html")


@pytest.fixture
def notebook(monkeypatch):
    from matplotlib import pyplot

    monkeypatch.setitem(sys.modules, "ipykernel", object())
    yield pyplot
    pyplot.close("all")


def test_notebooks_show_plots_and_not_those_of_reports(notebook, tmp_path):
    owlfi.report(RESULTS["check of a series"], tmp_path / "report.html")
    assert notebook.get_fignums() == []
    owlfi.plots.marginals(RESULTS["posterior"])
    owlfi.plots.null_histogram(RESULTS["test"])
    assert len(notebook.get_fignums()) == 2


NAMED = (
    r"$\nosuch$ a$b$c",
    "x_{",
    "100%_",
    r"$\frac{1$",
    "$^_$ \n\x07",
    "_hidden",
    "β <b>",
    "$x^2$",
    WILD,
)
LONG = " ".join(["a name"] * 40)


def rename(result, first):
    """The same of parameters, statistics, columns or models that are called otherwise."""
    names = (*NAMED[first:], *NAMED[:first], *(f"{LONG} {number}" for number in range(40)))
    about = {**result.about, "columns": list(names)}
    return dataclasses.replace(result, names=names[: len(result.names)], about=about)


def count_pictures(result, tmp_path):
    return len(read(result, tmp_path)[1].all("img"))


SAME_PICTURES = ("efficient estimate", "posterior", "check of a series", "doubtful")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SAME_PICTURES)) for name in RESULTS],
)
def test_names_that_are_no_tex_lose_no_pictures(name, tmp_path):
    known = count_pictures(RESULTS[name], tmp_path)
    for first in range(0, len(NAMED), len(RESULTS[name].names) or 1):
        assert count_pictures(rename(RESULTS[name], first), tmp_path) == known


def test_names_are_drawn_as_tex_or_as_they_stand():
    from matplotlib.figure import Figure

    for name in (*NAMED, LONG):
        label, figure = as_label(name), Figure()
        figure.text(0, 0, label)
        figure.draw_without_rendering()
        assert as_label(label) == label
    assert as_label("$x^2$") == "$x^2$"
    assert as_label(NAMED[0]).replace(r"\$", "$") == NAMED[0]
    assert len(as_label(LONG)) <= 40
    axis = plots.coverage(rename(make_calibration(), NAMED.index("_hidden")))
    assert [text.get_text() for text in axis.get_legend().texts] == [
        " _hidden",
        "β <b>",
        "all together",
    ]


def test_pages_are_white_whatever_the_style_of_other_plots(tmp_path):
    plain = read(make_posterior(), tmp_path)[0]
    with matplotlib.style.context(["dark_background", {"text.usetex": True}]):
        assert read(make_posterior(), tmp_path)[0] == plain


@pytest.mark.parametrize("beside", [0.0, 0.25])
def test_bars_hold_all_numbers_and_counts_fall_in_their_middle(beside):
    rng = np.random.default_rng(0)
    counts, stray = rng.poisson(5.0, 150).astype(float), np.append(rng.normal(size=99), 1e12)
    for x in (counts, rng.poisson(1e6, 50).astype(float), stray, np.full(5, 2.0), np.full(5, 0.5)):
        bins = choose_bins(x, beside)
        assert len(bins) <= 31
        assert np.histogram(x, bins)[0].sum() == len(x)
    each = np.diff(np.searchsorted(np.arange(-30.0, 60.0), choose_bins(counts, beside)))
    assert len({*each}) == 1
