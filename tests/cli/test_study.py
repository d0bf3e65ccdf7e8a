"""Studies in TOML, and the commands of campaigns."""

import json
import re
import types
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import owlfi.inference
import owlfi.results.result
from owlfi.campaign import Campaign
from owlfi.campaign.assemble import runs_with_equal_weights
from owlfi.cli.main import app
from owlfi.cli.study import read_study
from owlfi.cli.study_file import _KEYS, _TABLES, StudyError, construct
from owlfi.cli.study_steps import describe_saving, make_campaign, make_problem, plan_study
from owlfi.problem.simulations import Simulations

TOML = """\
command = "echo {theta} {u}"
noise = "Normal(0, 1)"
data = "observed.csv"
rule = "OptimallyWeighted"
m = 3
base_kernel = "SquaredExponential(1.0)"
thetas = 4
method = "none"
output = "out"

[prior]
location = "Uniform(0, 10)"

[run]
workers = 1
time_limit = 20
"""


class Result(owlfi.results.result.Result):
    names, calls, about, warnings = ("location",), 0, {"method": "a fake"}, ()

    def __init__(self, simulations, share):
        self.simulations, self.share = simulations, share

    def __getitem__(self, name):
        return self.share

    def _facts(self):
        return [self.summary()]

    def _table(self):
        return [["parameter", "share"], ["location", str(self.share)]]

    def summary(self):
        return f"{len(self.simulations.thetas)} thetas, share {self.share}"

    def save(self, path):
        Path(path).write_text(json.dumps(self.share))
        return path


def accept(problem, simulations, *, share=0.05):
    assert isinstance(simulations, Simulations)
    assert problem.squared_mmd(simulations.y, simulations.quadrature).shape == (4,)
    return Result(simulations, share)


def minimum_distance(key, problem, rule, *, starts=2):
    q = rule.quadrature(key, problem)
    y = jnp.stack([problem.simulator([float(start)], q.points) for start in range(starts)])
    return Result(Simulations(jnp.zeros((starts, 1)), q, y, y.size), starts)


@pytest.fixture
def methods(monkeypatch):
    monkeypatch.setattr(owlfi, "accept", accept)
    monkeypatch.setattr(owlfi, "minimum_distance", minimum_distance)


@pytest.fixture
def study(tmp_path):
    np.savetxt(
        tmp_path / "observed.csv", np.c_[np.linspace(3, 5, 9), np.linspace(-1, 1, 9)], delimiter=","
    )
    return tmp_path / "study.toml"


def invoke(*arguments):
    return CliRunner().invoke(
        app, [str(argument) for argument in arguments], env={"COLUMNS": "200"}
    )


def test_study_is_read(study):
    study.write_text(TOML)
    read = read_study(study)
    assert read.simulator.parameters == ("location",)
    assert read.simulator.generator.time_limit == 20
    assert (read.rule.m, read.thetas, read.seed) == (3, 4, 0)
    assert read.observed.shape == (9, 2)
    assert read.store == study.parent / "out" / "runs.sqlite"


def test_parameters_that_depend_on_each_other_share_a_line(study):
    joint = '"a, b" = "MultivariateNormal([0, 1], [[1, 0.5], [0.5, 1]])"'
    text = TOML.replace("[prior]\n", f"[prior]\n{joint}\n")
    study.write_text(text)
    prior = read_study(study).simulator.prior
    assert prior.names == ("a", "b", "location")
    assert [names for names, _ in prior.groups] == [("a", "b"), ("location",)]
    for names, message in (("a", "names must be 2 different ones"), ("a, location", "both priors")):
        study.write_text(text.replace("a, b", names))
        with pytest.raises(StudyError, match=message):
            read_study(study)


def test_simulators_of_modules_bring_their_noise_and_prior(study):
    lines = TOML.splitlines()
    np.savetxt(study.parent / "observed.csv", np.linspace(3, 5, 9))
    kept = [
        line for line in lines if not line.startswith(("command", "noise", "[prior]", "location"))
    ]
    study.write_text('simulator = "owlfi.models:wind_farm"\n' + "\n".join(kept))
    assert read_study(study).simulator.prior.names == ("direction",)
    study.write_text(
        TOML.replace('command = "echo {theta} {u}"', 'simulator = "campaign_models:slow"')
    )
    assert read_study(study).simulator.parameters == ("location",)


RANDOM = (
    TOML.replace('command = "echo {theta} {u}"', 'simulator = "ordinary_simulators:branching"')
    .replace('noise = "Normal(0, 1)"', "random = true")
    .replace("Uniform(0, 10)", "Uniform(0.5, 1.8)")
)


def test_random_simulators_have_their_noise_found(study):
    rows = np.repeat(np.linspace(0.5, 8.0, 9)[:, None], 8, axis=1)
    np.savetxt(study.parent / "observed.csv", rows, delimiter=",")
    plain = RANDOM.replace("OptimallyWeighted", "VStatistic")
    study.write_text(plain.replace('base_kernel = "SquaredExponential(1.0)"\n', ""))
    ran = invoke("run", study)
    assert ran.exit_code == 0, ran.output
    campaign = Campaign.open(study.parent / "out" / "runs.sqlite")
    assert campaign.status().done == 12
    assert campaign.results().y.shape == (4, 3, 8)


def test_commands_with_a_seed_need_no_noise(study):
    seeded = TOML.replace("{u}", "{seed}").replace('noise = "Normal(0, 1)"', "")
    study.write_text(seeded)
    assert not read_study(study).simulator.measure.smooth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RANDOM.replace("random = true", "random = 1"), "random: must be of type bool"),
        (RANDOM + 'noise = "Normal(0, 1)"', "run.noise: no such key"),
        (
            RANDOM.replace("random = true", 'random = true\nnoise = "Normal(0, 1)"'),
            "noise: dry runs find",
        ),
        (
            TOML.replace('noise = "Normal(0, 1)"', "random = true"),
            r"random: the command takes \{u\}",
        ),
        (RANDOM.replace(":branching", ":SIMULATORS"), "simulator: function must be a function"),
    ],
)
def test_mistakes_in_random_simulators(study, text, message):
    study.write_text(text)
    with pytest.raises(StudyError, match=message):
        read_study(study)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("m = 3", "m = 0", r"line 5: m: must be at least 1"),
        ("m = 3", f"m = 3\nseed = {2**70}", r"line 6: seed: must be at most 9223372036854775807"),
        ("Normal(0, 1)", "Normal(0, **{'sd': 2})", r"line 2: noise: .* each keyword must be named"),
        ("Normal(0, 1)", 9999 * "(" + "1" + 9999 * ")", r"line 2: noise: "),
        ("m = 3", "m = 3\nextra = " + 5000 * "[", r"nested too deeply|line 6"),
        ('[prior]\nlocation = "Uniform(0, 10)"', "[prior]", r"line 11: prior: has no parameters"),
        ('[prior]\nlocation = "Uniform(0, 10)"', "[other]", r"line 11: other: no such key"),
        ("m = 3", 'm = 3\n[explore]\nshare = """\n[run]\nx = 1"""', r"line 7: explore.share"),
        ("m = 3", "m = 3\nexplore = {batch = 1, sure = 2}", r"line 6: explore.sure: no such key"),
        ("m = 3", "m = 3\nexplore.batch = 1\nexplore.sure = 2", r"line 7: explore.sure"),
        ("m = 3", "m = 3 # \u00e9", r"line 5 is not UTF-8"),
        ("m = 3", 'm = "3"', r"line 5: m: must be of type int, got '3'"),
        ("m = 3", "size = 3", r"line 5: size: no such key; there are simulator, command"),
        ("m = 3", "m = = 3", r"study.toml: .*line 5"),
        ("Normal(0, 1)", "Gauss(0, 1)", r"line 2: noise: owlfi has no measure or kernel 'Gauss'"),
        ("Normal(0, 1)", "Normal(0, -1)", r"line 2: noise: sd must be positive"),
        ("Normal(0, 1)", "open('x')", r"line 2: noise: owlfi has no measure or kernel 'open'"),
        ("Uniform(0, 10)", "SquaredExponential(1.0)", r"line 12: prior.location: .* is no measure"),
        ("{theta} {u}", "{theta}", r"line 1: command: the command must be given theta and u"),
        ("observed.csv", "missing.csv", r"line 3: data: .*missing.csv"),
        ('"OptimallyWeighted"', '"Best"', r"line 4: rule: no rule is called Best; there are Opt"),
        ("thetas = 4", "", r"give thetas, or budget and m"),
        ("workers = 1", "cores = 1", r"line 15: run.cores: no such key; there are workers"),
        ('"none"', '"mcmc"', r"line 8: method: no method is called mcmc; there are abc, none"),
        ('"none"', '"abc"\noptions = {shares = 1}', r"options.shares: abc has the options share"),
        ('"none"', '"newton"', r"line 8: method: no method is called newton; there are abc, none"),
        ('"none"', '"stored_simulations"', r"line 8: method: no method is called stored_sim"),
        ('"none"', '"mmd_bayes"', r"line 8: method: mmd_bayes needs derivatives"),
        ('"none"', '"none"\noptions = {share = 1}', r"options.share: none has no options"),
        ("Uniform(0, 10)", "", r"line 12: prior.location: "),
        ('"Uniform(0, 10)"', "3", r"line 12: prior.location: 3 is no text; write it as"),
        ("workers = 1", "retries = -1", r"line 15: run.retries: must be at least 0, got -1"),
        ("= 20", "= -1.0", r"line 16: run.time_limit: must be positive seconds, got -1.0"),
        ("= 20", "= inf", r"line 16: run.time_limit: must be positive seconds, got inf"),
        ("Squ", "Cub", r"line 6: base_kernel: owlfi has no measure or kernel 'Cub"),
        ("SquaredExponential(1.0)", "best", r"line 6: base_kernel: base_kernel must be 'tuned'"),
        ("m = 3", f"m = {9 * '9999'}{5000 * '9'}", r"study.toml: .*digits"),
        ("observed.csv", "/dev/zero", r"line 3: data: there is no file '/dev/zero'"),
        ("= 20", "= nan", r"line 16: run.time_limit: must be positive seconds, got nan"),
        ("m = 3", "m = 100000000", r"line 5: m: must be at most 10,000,000, got 100,000,000"),
        ("thetas = 4", "thetas = 10000000000", r"line \d: thetas: must be at most 10,000,000"),
        ("workers = 1", 'dask = "abc"', r"line 15: run.dask: must be an address such as"),
        ("Normal(0, 1)", "Normal(0, sd=1, sd=2)", r"line 2: noise: .* gives a keyword twice"),
        ("location", '""', r"line 12: prior.: the name of this parameter is empty"),
        ("location", '" "', r"line 12: prior. : the name of this parameter is empty"),
        ('"out"', '""', r"line 9: output: is empty"),
        ('"out"', f'"{5000 * "x"}"', r"line 9: output: output can be no path .*too long"),
        ("Normal(0, 1)", "Normal(True, 1)", r"line 2: noise: mean must be a number .*, got True"),
        ("command", "simulator", r"line 1: simulator: an import path must look like"),
        ('noise = "Normal(0, 1)"', "", r"noise is missing"),
    ],
)
def test_mistakes_are_named_with_their_key_and_line(study, methods, old, new, message):
    study.write_text(TOML.replace(old, new, 1), encoding="latin-1")
    with pytest.raises(StudyError, match=message):
        read_study(study)
    assert not (study.parent / "out").exists()


def test_lines_are_counted_as_editors_do(study):
    study.write_text(f"# \u2028 is no end of a line for TOML\n{TOML.replace('m = 3', 'm = 0')}")
    with pytest.raises(StudyError, match="line 6: m: must be at least 1"):
        read_study(study)


@pytest.mark.parametrize(
    ("method", "option", "message"),
    [
        ("abc", "share = 2", r"line 18: options.share: share must lie above 0 and be at most 1"),
        ("abc", "share = true", r"line 18: options.share: share must be a number .*, got True"),
        ("abc", "threshold = true", r"options.threshold: threshold must be a number .*, got True"),
        ("abc", 'share = "a lot"', r"options.share: share must hold real numbers only"),
        ("abc", 'on_failure = "drop"', r"options.on_failure: on_failure must be one of reject"),
        ("abc", "base_kernel = 1", r"options.base_kernel: abc has the options share, threshold"),
        ("minimum_distance", "progress = 1", r"options.progress: progress must be True or False"),
        ("minimum_distance", "starts = 0", r"options.starts: starts must be a whole number"),
        ("sequential_abc", "keep = 9999", r"options.keep: keep must be from 2 to draws"),
    ],
)
def test_options_are_checked_before_anything_runs(study, method, option, message):
    study.write_text(TOML.replace('"none"', f'"{method}"') + f"[options]\n{option}\n")
    with pytest.raises(StudyError, match=message):
        read_study(study)


def test_data_may_have_a_header_but_no_gaps(study):
    study.write_text(TOML)
    data = study.parent / "observed.csv"
    numbers = data.read_text()
    data.write_text(f"a,b\n{numbers}")
    assert read_study(study).observed.shape == (9, 2)
    data.write_text(f"{numbers}nan,1.0\n")
    with pytest.raises(StudyError, match=r"line 3: data: .* NaN or infinite"):
        read_study(study)


def test_data_with_other_columns_than_y_are_refused_after_one_run(study):
    np.savetxt(study.parent / "observed.csv", np.linspace(3, 5, 9))
    study.write_text(TOML.replace('"none"', '"abc"'))
    assert "data has 1 columns where y has 2" in invoke("run", study).output
    assert Campaign.open(study.parent / "out" / "runs.sqlite").status().done == 1
    rows = np.ones((9, 2)) * np.linspace(3, 5, 9)[:, None]
    np.savetxt(study.parent / "observed.csv", rows, delimiter=",")
    study.write_text(
        TOML.replace('command = "echo {theta} {u}"', 'simulator = "campaign_models:scaled"')
    )
    with pytest.raises(StudyError, match=r"line 3: data: observed has 2 columns where the sim"):
        read_study(study)


def test_measures_are_written_as_their_constructors():
    assert construct("Product(Normal(0, 1), Uniform(-1, 1))").dim == 2
    for text in ("__import__('os')", "Normal(0, x)", "1 + 1"):
        with pytest.raises(ValueError, match=r"no measure or kernel|must look like"):
            construct(text)


def test_whole_study_runs_infers_and_resumes(study, methods):
    study.write_text(TOML.replace('"none"', '"abc"') + "[options]\nshare = 0.5\n")
    for _ in range(2):
        result = invoke("run", study)
        assert result.exit_code == 0, result.output
        assert "12 of 12 done, 0 failed" in result.stdout
        assert "4 thetas, share 0.5" in result.stdout
    assert json.loads((study.parent / "out" / "abc.npz").read_text()) == 0.5
    changed = TOML.replace("{theta} {u}", "{u} {theta}")
    study.write_text(changed)
    assert "runs of another simulator" in invoke("run", study).output


def test_what_is_wrong_with_a_result_is_written_with_it(study):
    """Half of the thetas fail, and of the few others half are accepted."""
    script = study.parent / "program.sh"
    script.write_text('case $1 in [5-9]*) exit 3;; esac; echo "$1 $2"')
    study.write_text(TOML.replace("echo", f"sh {script}").replace('"none"', '"abc"'))
    result = invoke("run", study)
    assert result.exit_code == 0, result.output
    kept = owlfi.load(study.parent / "out" / "abc.npz").warnings
    assert ["of 4 parameters a simulation failed" in told for told in kept] == [True, False, False]
    assert kept[1].startswith("Few draws: of 1 draw")
    for told in kept:
        assert result.stdout.count(f"Warning: {told}.") == 1
    store = study.parent / "out" / "runs.sqlite"
    written = invoke("campaign", "results", store, study.parent / "runs.npz").stdout
    assert f"Warning: {kept[0]}." in written


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("m = 3", "m = 5", "m is 5 now, but .*runs.sqlite was planned with 3; choose another"),
        ('"OptimallyWeighted"', '"VStatistic"', "rule is 'VStatistic' now"),
        ("SquaredExponential(1.0)", "SquaredExponential(2.0)", "kernel is 'SquaredExp"),
        ("thetas = 4", "thetas = 3", "thetas is 3 now"),
        ("thetas = 4", "thetas = 4\nseed = 1", "seed is 1 now"),
    ],
)
def test_study_that_changed_is_refused_where_it_was_planned(study, old, new, message):
    study.write_text(TOML)
    invoke("campaign", "new", study)
    changed = TOML.replace(old, new)
    if "VStat" in new:
        changed = changed.replace('base_kernel = "SquaredExponential(1.0)"\n', "")
    study.write_text(changed)
    read = read_study(study)
    with pytest.raises(ValueError, match=message):
        plan_study(read, make_campaign(read))
    assert "12 runs to make" not in invoke("campaign", "new", study).output


def test_study_with_more_thetas_extends_its_design(study):
    study.write_text(TOML)
    assert "12 runs to make" in invoke("campaign", "new", study).output
    study.write_text(TOML.replace("thetas = 4", "thetas = 6"))
    for _ in range(2):
        assert "18 runs to make" in invoke("campaign", "new", study).output
    campaign = Campaign.open(study.parent / "out" / "runs.sqlite")
    assert len(np.unique(campaign.design.thetas)) == 6


def test_failed_runs_of_a_study_are_made_again_where_this_is_asked_for(study):
    script, licence = study.parent / "program.sh", study.parent / "licence"
    script.write_text(f'case $2 in -*) test -e {licence} || exit 3;; esac; echo "$1 $2"')
    study.write_text(TOML.replace("echo", f"sh {script}"))
    assert "failed" in invoke("run", study).output
    failed = Campaign.open(study.parent / "out" / "runs.sqlite").status().failed
    licence.touch()
    assert f"{failed} failed" in invoke("run", study).output
    assert "12 of 12 done, 0 failed" in invoke("run", study, "--retry-failed").output
    assert failed > 0


def test_methods_that_choose_their_own_runs_use_the_store(study, methods):
    study.write_text(TOML.replace('"none"', '"minimum_distance"').replace("thetas = 4\n", ""))
    result = invoke("run", study)
    assert "2 thetas, share 2" in result.stdout, result.output
    with Campaign.open(study.parent / "out" / "runs.sqlite").reading() as store:
        assert len(store.outputs()) == 6


def test_commands_make_run_show_export_import_and_write(study):
    study.write_text(TOML)
    store, folder = study.parent / "out" / "runs.sqlite", study.parent
    assert "12 runs to make" in invoke("campaign", "new", study).stdout
    assert "5 of 12 done" in invoke("campaign", "run", store, "--budget", 5, "--workers", 1).stdout
    partial = invoke("campaign", "results", store, folder / "part.csv", "--partial")
    assert "(1 thetas)" in partial.stdout
    assert "have not ended" in invoke("campaign", "results", store, folder / "x.npz").output
    exported = invoke("campaign", "export", store, folder / "design.npz", "--slurm", 2)
    assert "(7 runs)" in exported.stdout
    assert "--array=0-1" in (folder / "job.sh").read_text()
    files = [folder / f"results-{task}.csv" for task in range(2)]
    for task, file in enumerate(files):
        options = ("--task", task, "--tasks", 2, "--out", file)
        assert "runs made" in invoke("campaign", "work", folder / "design.npz", *options).stdout
    assert "7 new runs" in invoke("campaign", "import", store, *files).stdout
    assert "12 of 12 done" in invoke("campaign", "status", store, "--failures", 3).stdout
    invoke("campaign", "results", store, folder / "all.npz")
    with np.load(folder / "all.npz") as found:
        expected = np.broadcast_to(found["thetas"][:, None], (4, 3, 1))
        assert_allclose(found["y"][..., :1], expected)
        assert_allclose(found["y"][..., 1:], np.broadcast_to(found["u"], (4, 3, 1)))
    rows = (folder / "part.csv").read_text().splitlines()
    assert rows[0] == "location,u_1,weight,y_1,y_2"
    assert len(rows) == 4


def test_errors_of_commands_are_one_message(tmp_path):
    result = invoke("campaign", "status", tmp_path / "none.sqlite")
    assert result.exit_code == 1
    assert result.output.startswith("Error: there is no campaign at")
    assert "there is no study" in invoke("run", tmp_path / "none.toml").output


def test_missing_files_and_wrong_designs_are_one_message_and_write_nothing(study):
    study.write_text(TOML)
    folder, store = study.parent, study.parent / "out" / "runs.sqlite"
    invoke("campaign", "new", study)
    for arguments in (
        ("import", store, folder / "none.csv"),
        ("work", folder / "none.npz", "--out", folder / "out.csv"),
    ):
        result = invoke("campaign", *arguments)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert "none." in result.output
    refused = invoke("campaign", "export", store, folder / "design.csv", "--slurm", 3)
    assert "a job array needs a design that ends in .npz, got design.csv" in refused.output
    assert not (folder / "design.csv").exists()
    told = invoke("campaign", "propose", study)
    assert "has no runs to learn from yet; make some with run()" in told.output


@pytest.mark.parametrize("name", ["new", "run", "status", "results", "export", "import", "work"])
def test_every_command_shows_an_example(name):
    assert f"Example: owlfi campaign {name}" in invoke("campaign", name, "--help").stdout


def test_time_saved_is_told_where_the_weights_have_a_certificate(study):
    study.write_text(TOML)
    read = read_study(study)
    campaign = make_campaign(read)
    plan_study(read, campaign)
    campaign.run(executor="here")
    runs = campaign.results()
    assert describe_saving(read, campaign) == ""
    certificate = types.SimpleNamespace(excess=np.array(1e-4))
    quadrature = types.SimpleNamespace(certificate=certificate)
    campaign.design = types.SimpleNamespace(quadrature=quadrature)
    campaign.results = lambda partial: runs
    needed = runs_with_equal_weights(make_problem(read, campaign).data_kernel, runs, 1e-4)
    hours = (needed - 12) * campaign.status().mean_seconds / 3600
    told = f"Equal weights would need about {needed:,.0f} runs: {hours:,.3g} hours saved."
    assert describe_saving(read, campaign) == told


EXPLORING = (
    TOML.replace("thetas = 4", "budget = 40").replace('"none"', '"abc"').replace("m = 3", "m = 2")
    + "\n[explore]\nbatch = 12\n"
)


def test_study_proposes_thetas_until_its_budget_is_spent(study):
    study.write_text(EXPLORING)
    result = invoke("run", study)
    assert result.exit_code == 0, result.output
    campaign = Campaign.open(study.parent / "out" / "runs.sqlite")
    assert len(campaign.design.thetas) == 19  # of 40 calls 1 checks, 38 are of two points each
    assert campaign.status().calls == 39
    assert campaign.results().importance is not None
    more = invoke("campaign", "propose", study, "--count", 3)
    assert "3 thetas more, 6 runs to make" in more.stdout, more.output


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch = 12", "size = 2", r"explore.size: no such key; there are batch, share, safety"),
        ("batch = 12", "share = 2", r"explore.share: must lie above 0 and be at most 1, got 2"),
        ("budget = 40", "thetas = 4", r"explore: proposals need a budget, and method abc or none"),
        ('"abc"', '"pseudo_marginal"', r"explore: proposals need a budget"),
    ],
)
def test_mistakes_in_what_to_explore_are_named(study, old, new, message):
    study.write_text(EXPLORING.replace(old, new))
    with pytest.raises(StudyError, match=message):
        read_study(study)


PAGE = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text(encoding="utf-8")


def test_study_of_a_program_on_the_page_is_read(tmp_path):
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (text,) = (toml for toml in blocks if "\n[prior]\n" in toml)
    (tmp_path / "study.toml").write_text(text.replace("./projectile", "echo 1"))
    (tmp_path / "observed.csv").write_text("a,b,c,d,e\n1,2,3,4,5\n2,3,4,5,7\n")
    study = read_study(tmp_path / "study.toml")
    assert study.simulator.parameters == ("speed", "angle")
    assert study.thetas == 100


def test_page_lists_all_keys_of_a_study():
    named = set(re.findall(r"`\[?(\w+)\]?`", PAGE))
    assert {*_KEYS, *_TABLES["run"], *_TABLES["explore"]} <= named
