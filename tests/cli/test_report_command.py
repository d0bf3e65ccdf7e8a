"""From a study in TOML to its report."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import owlfi
from owlfi.cli.main import app

TOML = """\
simulator = "campaign_models:in_numpy"
noise = "Normal(0, 1)"
data = "observed.csv"
rule = "VStatistic"
m = 4
thetas = 30
method = "METHOD"
output = "out"

[prior]
location = "Uniform(0, 10)"

[run]
workers = 1
"""


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def study(tmp_path):
    np.savetxt(tmp_path / "observed.csv", np.linspace(3, 5, 12)[:, None], header="<b>", comments="")
    path = tmp_path / "study.toml"
    path.write_text(
        TOML.replace("METHOD", "abc").replace(
            "workers = 1", "workers = 1\n\n[options]\nshare = 0.5"
        )
    )
    return path


def test_study_ends_with_its_report(study):
    ran = invoke("run", study)
    assert ran.exit_code == 0, ran.output
    page = study.parent / "out" / "report.html"
    assert f"Written: {page}" in ran.output
    text = page.read_text(encoding="utf-8")
    for words in ("Uniform(0.0, 10.0)", "# owlfi run study.toml", "What to doubt", "seconds"):
        assert words in text
    assert "<b>" not in text
    assert "&lt;b&gt;" in text  # the name of the column
    assert "Does the fitted model give such data?" in text  # of runs that take no time
    again = study.parent / "later.html"
    result = study.parent / "out" / "abc.npz"
    ran = invoke("report", result, "--problem", study, "--check", "--out", again)
    assert ran.exit_code == 0, ran.output
    text = again.read_text(encoding="utf-8")
    assert "Does the fitted model give such data?" in text
    assert "Weights and certificate" in text


def test_study_of_a_method_that_simulates_itself_shows_its_weights(study, monkeypatch):
    lines = ["import jax.numpy as jnp", "def shift(theta, u):", "    return theta[0] + jnp.sinh(u)"]
    (study.parent / "shifted_noise.py").write_text("\n".join(lines))
    monkeypatch.chdir(study.parent)
    monkeypatch.syspath_prepend(str(study.parent))
    own = TOML.replace("campaign_models:in_numpy", "shifted_noise:shift").replace(
        "thetas = 30\n", ""
    )
    study.write_text(own.replace("METHOD", "rejection_abc") + "[options]\ndraws = 100\n")
    ran = invoke("run", "study.toml")
    assert ran.exit_code == 0, ran.output
    assert "Weights and certificate" in (study.parent / "out" / "report.html").read_text("utf-8")


def test_a_check_that_would_take_long_is_offered(study, monkeypatch):
    monkeypatch.setattr("owlfi.cli.report.list_seconds", lambda store: [3600.0])
    ran = invoke("run", study)
    assert ran.exit_code == 0, ran.output
    out = study.parent / "out"
    told = f"no predictive check, 180 days of runs; for one: owlfi report {out / 'abc'}.npz --prob"
    assert told in ran.output
    assert "such data?" not in (out / "report.html").read_text(encoding="utf-8")


def test_study_without_inference_has_a_report_of_its_runs(study):
    study.write_text(TOML.replace("METHOD", "none"))
    ran = invoke("run", study)
    assert ran.exit_code == 0, ran.output
    assert "The runs" in (study.parent / "out" / "report.html").read_text(encoding="utf-8")


def test_result_alone_has_a_report_beside_it(tmp_path):
    estimate = owlfi.Estimate(("a",), jnp.array([2.0]), jnp.array([[0.01]]), jnp.array(0.001), 512)
    saved = estimate.save(tmp_path / "estimate.npz")
    ran = invoke("report", saved)
    assert ran.exit_code == 0, ran.output
    assert "512 simulator calls" in (tmp_path / "estimate.html").read_text(encoding="utf-8")


def test_simulator_of_a_report_may_lie_in_this_folder(study, monkeypatch):
    monkeypatch.chdir(study.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (study.parent / "lies_here.py").write_text("def simulate(theta, u):\n    return theta[0] + u\n")
    study.write_text(TOML.replace("campaign_models:in_numpy", "lies_here:simulate"))
    study.write_text(study.read_text().replace("METHOD", "abc"))
    parts = ("location",), jnp.array([4.0]), jnp.array([[0.01]]), jnp.array(0.001)
    saved = owlfi.Estimate(*parts).save("estimate.npz")
    ran = invoke("report", saved, "--problem", "study.toml")
    assert ran.exit_code == 0, ran.output
    assert "Weights and certificate" in saved.with_suffix(".html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npz"], "there is no file"),
        (["none.npz", "--check"], "--check simulates, and needs the simulator"),
    ],
)
def test_mistakes_are_one_message(arguments, message):
    ran = invoke("report", *arguments)
    assert ran.exit_code == 1
    assert message in ran.output
    assert "Traceback" not in ran.output
