"""Results can be read, kept, plotted and handed to ArviZ."""

import json
from dataclasses import FrozenInstanceError, fields, replace
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import owlfi
from gaussian import gaussian_problem
from owlfi import Estimate, HealthWarning, HypothesisTest, Posterior, load, plots
from owlfi.results import announce
from results_of_all_kinds import make_check, make_efficient_estimate, make_posterior, make_test

KEY = jax.random.key(0)
NAMES = ("a", "b")


def estimate():
    covariance = jnp.array([[0.04, 0.0], [0.0, 0.01]])
    trace = jnp.array([[0.0, 0.0], [1.0, 2.0]]), jnp.array([0.5, 0.1])
    return Estimate(NAMES, jnp.array([1.0, 2.0]), covariance, jnp.array(0.1), 7, 3, True, *trace)


def posterior(chains=2):
    draws = jax.random.normal(KEY, (400, 2)) * jnp.array([[1.0, 3.0]])
    return Posterior(NAMES, draws, jnp.full(400, 1 / 400), 12, chains, {"beta": 2.0})


def fitted_test(p_value=0.01, **options):
    about = {"method": "composite", "failed": 1}
    numbers = 0.02, p_value, 0.015, 0.05, jnp.array([0.005, 0.01, jnp.inf])
    model = {"names": NAMES, "theta": jnp.array([1.5, -2.0]), "calls": 1234, "about": about}
    return HypothesisTest(*numbers, **(model | options))


def two_samples_test():
    return fitted_test(0.5, names=(), theta=None, calls=0, about={"method": "two-sample MMD"})


RESULTS = {
    "estimate": estimate(),
    "posterior": posterior(),
    "test": fitted_test(),
    "two samples": two_samples_test(),
}
SENTENCES = "the rows depend on each other; thin them", "2 < 3 draws; draw more"
DOUBTFUL = {name: replace(result, warnings=SENTENCES) for name, result in RESULTS.items()}


def over(results):
    return pytest.mark.parametrize("result", results.values(), ids=results)


def test_estimate_has_normal_intervals():
    low, high = estimate().interval(0.95)
    assert_allclose(low, [1 - 0.392, 2 - 0.196], atol=1e-4)
    assert_allclose(high, [1 + 0.392, 2 + 0.196], atol=1e-4)


@pytest.mark.parametrize("result", [estimate(), posterior()])
def test_summary_has_a_row_for_each_parameter(result):
    rows = result.summary().splitlines()
    assert [row.split()[0] for row in rows[:3]] == ["parameter", "a", "b"]


def test_weighted_moments_and_quantiles():
    result = Posterior(("a",), jnp.array([[0.0], [1.0], [2.0]]), jnp.array([0.25, 0.5, 0.25]))
    assert_allclose(result.mean, [1.0])
    assert_allclose(result.sd, [np.sqrt(0.5)])
    assert_allclose(result.quantile(0.5), [1.0])


def test_quantiles_of_equal_weights_are_those_of_the_draws():
    low, high = posterior().interval(0.9)
    expected = np.quantile(np.asarray(posterior().draws), [0.05, 0.95], axis=0)
    assert_allclose([low, high], expected, atol=0.1)


@over(RESULTS | {f"doubtful {name}": result for name, result in DOUBTFUL.items()})
def test_saved_results_come_back_without_pickle(result, tmp_path):
    again = owlfi.load(result.save(tmp_path / "result_0.05"))
    assert type(again) is type(result)
    assert repr(again) == repr(result)
    for field in fields(result):
        old, new = getattr(result, field.name), getattr(again, field.name)
        assert type(new) is type(old)
        assert np.array_equal(new, old) if isinstance(old, jax.Array) else new == old


def test_results_made_with_numpy_arrays_are_saved_too(tmp_path):
    result = Posterior(("a",), np.array([[0.0], [1.0]]), np.array([0.5, 0.5]))
    assert_allclose(owlfi.load(result.save(tmp_path / "result")).draws, result.draws)


@over(RESULTS)
def test_results_cannot_be_changed_and_are_equal_to_themselves_only(result):
    with pytest.raises(FrozenInstanceError):
        result.calls = 0
    assert result == result
    assert result != replace(result)
    assert len({result, replace(result)}) == 2


@over(RESULTS)
def test_results_are_shown_on_one_short_line(result):
    text = repr(result)
    assert text.startswith(f"{type(result).__name__}(")
    assert "\n" not in text
    assert "[" not in text
    assert len(text) < 200


def test_what_is_shown_of_results():
    assert repr(estimate()) == (
        "Estimate(minimum distance; a: 1 ± 0.2, b: 2 ± 0.1; 7 simulator calls)"
    )
    stopped = replace(estimate(), converged=False)
    assert "; not converged; 7 " in repr(stopped)
    assert "; not converged; 7 " in stopped._repr_html_()
    abc = Posterior(("a",), jnp.array([[1.0], [3.0]]), jnp.full(2, 0.5), 1, about={"method": "ABC"})
    assert repr(abc) == "Posterior(ABC; a: 2 ± 1; 2 draws; 1 simulator call)"
    assert repr(fitted_test()) == (
        "HypothesisTest(composite; statistic 0.02; p = 0.01: rejected at level 0.05; "
        "a: 1.5, b: -2; 1,234 simulator calls)"
    )
    assert "p = 0.5: not rejected at level 0.05; 0 simulator calls" in repr(two_samples_test())


def test_many_parameters_are_shown_in_part():
    names = tuple(f"theta_{j}" for j in range(40))
    many = Estimate(names, jnp.zeros(40), jnp.eye(40), jnp.array(0.0))
    assert "theta_3: 0 ± 1, ..., theta_39: 0 ± 1" in repr(many)
    assert many.summary().count("theta_") == many._repr_html_().count("theta_") == 40


@over(RESULTS)
def test_notebooks_show_a_table_of_well_formed_html(result):
    table = ElementTree.fromstring(result._repr_html_())
    assert table.tag == "table"
    assert len({len(row) for row in table.iter("tr")}) == 1
    shown = [row[0].text for row in table.iter("tr")]
    assert set(result.names) <= set(shown)


def test_names_are_escaped_in_notebooks():
    text = replace(estimate(), names=("<b>", "a & b"))._repr_html_()
    assert [row[0].text for row in ElementTree.fromstring(text).iter("tr")][1:] == ["<b>", "a & b"]


def test_parameters_by_name():
    assert estimate()["b"] == 2.0
    assert isinstance(estimate()["b"], float)
    assert_allclose(posterior()["b"], posterior().draws[:, 1])
    assert fitted_test()["b"] == -2.0
    assert list(posterior()) == ["a", "b"]
    assert "a" in estimate()
    assert "c" not in estimate()


def test_results_are_dictionaries_of_their_parameters():
    assert dict(estimate()) == {"a": 1.0, "b": 2.0}
    assert dict(fitted_test()) == {"a": 1.5, "b": -2.0}
    assert dict(two_samples_test()) == {}
    assert_allclose({**posterior()}["b"], posterior()["b"])


@over(RESULTS)
def test_unknown_parameter_names_those_that_are_there(result):
    known = "the result has a, b" if result.names else "there is none"
    with pytest.raises(KeyError, match=f"there is no parameter beta; {known}"):
        result["beta"]


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file '.*none.npz'"):
        owlfi.load(tmp_path / "none")


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "other.npz"
    np.savez(file, x=np.ones(3))
    with pytest.raises(ValueError, match="no file that owlfi saved"):
        owlfi.load(file)


def test_arviz_has_every_chain():
    group = posterior().to_arviz().posterior
    assert group["a"].shape == (2, 200)


def test_arviz_asks_for_a_key_to_resample_weighted_draws():
    weighted = Posterior(("a",), jnp.array([[0.0], [1.0]]), jnp.array([0.9, 0.1]))
    with pytest.raises(ValueError, match="give a key"):
        weighted.to_arviz()
    assert weighted.to_arviz(KEY).posterior["a"].shape == (1, 2)


def test_predictive_data_sets_are_simulated_at_the_draws():
    problem = gaussian_problem()
    certain = Posterior(("mean",), jnp.array([[50.0]]), jnp.ones(1))
    y = certain.predictive(KEY, problem.simulator, 5, 30)
    assert y.shape == (5, 30, 1)
    assert_allclose(y.mean(), 50, atol=4 / np.sqrt(150))


def test_plots_draw_on_the_axes_they_are_given():
    problem = gaussian_problem()
    axes = plots.new_axes(1, 2)
    assert plots.marginals(posterior(), axes, truth=[0.0, 0.0], label="one")[0] is axes[0, 0]
    assert plots.pairs(posterior(), truth=[0.0, 0.0]).shape == (2, 2)
    assert len(plots.trace(estimate())) == 2
    assert len(plots.trace(posterior())[0].lines) == 2
    samples = jnp.ones((3, 10, 1)) + problem.observed[None, :10]
    assert len(plots.predictive(problem, samples)) == 1
    quadrature = owlfi.VStatistic(10).quadrature(KEY, problem)
    assert plots.weights(quadrature).get_ylabel() == "weight"


def test_axes_of_the_wrong_number_are_refused():
    with pytest.raises(ValueError, match="must hold 2 axes, got 1"):
        plots.marginals(posterior(), plots.new_axes())


def test_level_outside_0_to_1_is_refused():
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        estimate().interval(90)


def test_dots_in_a_name_are_no_ending(tmp_path):
    first, second = (posterior().save(tmp_path / f"post_0.{digits}") for digits in ("05", "10"))
    assert first != second
    assert_allclose(owlfi.load(tmp_path / "post_0.05").draws, owlfi.load(first).draws)


def test_plots_are_there_when_asked_for():
    assert owlfi.plots is plots
    with pytest.raises(AttributeError, match="no attribute 'plotz'"):
        owlfi.plotz  # noqa: B018


# Warnings


@over(RESULTS)
def test_sound_results_warn_of_nothing(result):
    assert result.warnings == ()
    assert announce(result) is result
    assert "arning" not in result.summary() + repr(result) + result._repr_html_()


@over(DOUBTFUL)
def test_warnings_end_the_summary_and_are_counted_at_the_prompt(result):
    *table, first, second = result.summary().splitlines()
    assert table == replace(result, warnings=()).summary().splitlines()
    assert (first, second) == tuple(f"Warning: {sentence}." for sentence in SENTENCES)
    assert repr(result).endswith("; 2 warnings)")
    assert repr(replace(result, warnings=SENTENCES[:1])).endswith("; 1 warning)")


@over(DOUBTFUL)
def test_notebooks_show_warnings_below_the_table(result):
    table, *lines = ElementTree.fromstring(result._repr_html_())
    assert table.tag == "table"
    assert [line.text for line in lines] == [f"Warning: {sentence}." for sentence in SENTENCES]


def test_warnings_are_issued_once_at_the_line_of_the_caller():
    with pytest.warns(HealthWarning) as issued:
        result = announce(DOUBTFUL["estimate"])
    assert result is DOUBTFUL["estimate"]
    assert [str(warning.message) for warning in issued] == [*SENTENCES]
    assert {warning.filename for warning in issued} == {__file__}


def test_saving_and_loading_issue_nothing(tmp_path):
    assert owlfi.load(DOUBTFUL["test"].save(tmp_path / "test")).warnings == SENTENCES


def test_files_from_before_there_were_warnings_are_read(tmp_path):
    file = estimate().save(tmp_path / "old")
    with np.load(file) as content:
        arrays = {name: content[name] for name in content.files if name != "about"}
        about = json.loads(str(content["about"]))
    del about["warnings"]
    np.savez(file, about=np.array(json.dumps(about)), **arrays)
    assert owlfi.load(file).warnings == ()


# Files that are no results

SAVED = Estimate(("a", "b"), jnp.ones(2), jnp.eye(2), jnp.array(0.5), 7, trace_values=jnp.ones(3))


def write_estimate(path, about=None, **arrays):
    """A file like that of SAVED, with other values in places."""
    told = {"kind": "Estimate", "names": ["a", "b"], "calls": 7} | (about or {})
    values = {"theta": np.ones(2), "covariance": np.eye(2), "squared_mmd": np.array(0.5)} | arrays
    np.savez(path, about=np.array(json.dumps(told)), **values)


NO_RESULTS = {
    "text": lambda path: path.write_text("a,b\n1,2\n"),
    "nothing": lambda path: path.write_bytes(b""),
    "half a file": lambda path: path.write_bytes(SAVED.save(path).read_bytes()[:200]),
    "other bytes": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256))),
    "an array": lambda path: np.savez(path, x=np.ones(3)),
    "a pickle": lambda path: np.savez(path, about=np.array([print], object), allow_pickle=True),
    "a list": lambda path: np.savez(path, about=np.array("[1, 2]")),
    "a number": lambda path: np.savez(path, about=np.array("3")),
    "deep text": lambda path: np.savez(path, about=np.array("[" * 9999)),
    "another kind": lambda path: write_estimate(path, {"kind": "Forecast"}),
    "a kind that is a list": lambda path: write_estimate(path, {"kind": ["Estimate"]}),
    "one name": lambda path: write_estimate(path, {"names": ["a"]}),
    "names of numbers": lambda path: write_estimate(path, {"names": [1, 2]}),
    "a name as text": lambda path: write_estimate(path, {"names": "ab"}),
    "calls as text": lambda path: write_estimate(path, {"calls": "7"}),
    "an unknown field": lambda path: write_estimate(path, {"colour": "red"}),
    "an unknown array": lambda path: write_estimate(path, colour=np.ones(2)),
    "another shape": lambda path: write_estimate(path, theta=np.ones(3)),
    "no square": lambda path: write_estimate(path, covariance=np.ones((2, 3))),
    "other traces": lambda path: write_estimate(
        path, trace_values=np.ones(3), trace_thetas=np.ones((4, 2))
    ),
    "a boolean for calls": lambda path: write_estimate(path, {"calls": True}),
    "a method that is no text": lambda path: write_estimate(path, {"about": {"method": 3}}),
    "mass without its error": lambda path: write_estimate(path, {"mass": 0.9, "misfit": 0.1}),
    "chances alone": lambda path: write_estimate(path, chances=np.ones(3)),
    "text for numbers": lambda path: write_estimate(path, theta=np.array(["a", "b"])),
}


@pytest.mark.parametrize("write", NO_RESULTS.values(), ids=NO_RESULTS)
def test_files_that_are_no_results_are_refused(tmp_path, write):
    write(tmp_path / "file.npz")
    with pytest.raises(ValueError, match=r"file.npz is no file that owlfi saved"):
        load(tmp_path / "file.npz")


def without(result, name, path, **arrays):
    """The file of a result that lacks an array, or has another one."""
    with np.load(result.save(path)) as content:
        kept = {each: content[each] for each in content.files if each != name}
    np.savez(path, **kept | arrays)
    return path


INCOMPLETE = {
    "test without theta": (make_test(), "theta", {}),
    "check without replicated": (make_check(), "replicated", {"replicated": np.zeros((0, 2))}),
    "check without pictures": (make_check(), "replicates", {"replicates": np.zeros((0, 60, 3))}),
    "estimate without left_out": (make_efficient_estimate(), "left_out", {}),
}


@pytest.mark.parametrize(("result", "name", "arrays"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_results_that_could_not_be_used_are_refused_by_name(tmp_path, result, name, arrays):
    with pytest.raises(ValueError, match=rf"is no file that owlfi saved.*\b{name} is "):
        load(without(result, name, tmp_path / "file.npz", **arrays))


def test_chains_have_equally_many_draws():
    with pytest.raises(ValueError, match="400 draws are not those of 3 chains"):
        posterior(chains=3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, for such numbers
@pytest.mark.parametrize("value", [np.nan, 1e308])
def test_page_of_numbers_beyond_drawing_has_its_tables(tmp_path, value):
    far = replace(posterior(), draws=jnp.full((400, 2), value))
    assert "The answer" in owlfi.report(far, tmp_path / "far.html").read_text(encoding="utf-8")


def test_file_written_by_hand_is_read_where_all_fits(tmp_path):
    write_estimate(tmp_path / "file.npz")
    assert load(tmp_path / "file.npz")["b"] == 1.0
    assert load(SAVED.save(tmp_path / "saved")).trace_values.shape == (3,)


def test_small_files_that_unfold_to_more_than_memory_are_refused(tmp_path, monkeypatch):
    """They would take all of it before anything is known of them."""
    path = make_posterior().save(tmp_path / "posterior.npz")
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 64}.get(name, 100))
    with pytest.raises(ValueError, match=r"the arrays of .*posterior.npz ask for .* numbers"):
        load(path)


def test_estimates_predict_data_within_their_errors():
    problem = gaussian_problem()
    sure = owlfi.Estimate(("mean",), jnp.array([2.0]), jnp.array([[1e-6]]), jnp.array(0.0))
    y = sure.predictive(KEY, problem.simulator, 5, 300)
    assert y.shape == (5, 300, 1)
    assert_allclose(y.mean(), 2.0, atol=4 / np.sqrt(1500))
