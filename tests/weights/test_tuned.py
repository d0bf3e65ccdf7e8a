"""Weights tuned to simulations: the criterion, the choice of kernel, the certificate, the words."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import owlfi
from owlfi import models
from owlfi._tools.arrays import as_jax
from owlfi._tools.bfgs import minimise
from owlfi.experiments.excess import excesses, law_of, simulate_rows
from owlfi.measures.rotated import Rotated
from owlfi.measures.rotation import rotation_to
from owlfi.weights import kernel_fit
from owlfi.weights.certificate import Verdict
from owlfi.weights.coordinates import coordinate_systems
from owlfi.weights.tuned import tune

KEY = jax.random.key(3)
K = owlfi.SquaredExponential(1.0)


def tune_to(function, measure, m=64, points=owlfi.sobol, k=K):
    u = points(KEY, m, measure)
    return owlfi.tuned_weights(k, measure, u, function(u))


def independent_designs():
    return jnp.stack([owlfi.iid(jax.random.fold_in(KEY, i), 10, owlfi.Normal()) for i in range(50)])


# Minimisation


def test_minimise_finds_the_bottom_of_a_curved_valley():
    def rosenbrock(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    found = minimise(rosenbrock, jnp.array([-1.2, 1.0]), trials=400, tolerance=1e-12)
    assert_allclose(found, [1.0, 1.0], atol=1e-4)


def test_minimise_walks_around_values_that_are_nan():
    found = minimise(lambda x: -jnp.log(x[0]) + x[0], jnp.array([0.1]), tolerance=1e-10)
    assert_allclose(found, [1.0], atol=1e-4)
    stuck = minimise(lambda x: jnp.nan * x[0], jnp.array([0.3]))
    assert_allclose(stuck, [0.3])


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_minimise_goes_on_from_the_lowest_of_several_starts(order):
    def two_wells(x):  # the left one is deeper; NaN beyond 2
        return jnp.where(x[0] < 2, (x[0] ** 2 - 1) ** 2 + 0.3 * x[0], jnp.nan)

    starts = jnp.array([[0.9], [-0.7], [3.0]])[jnp.array(order)]
    found = minimise(two_wells, starts, tolerance=1e-10)
    assert_allclose(found, [-1.0355], atol=1e-3)
    assert_allclose(
        minimise(two_wells, starts[order.index(0)], tolerance=1e-10), [0.9604], atol=1e-3
    )


# The criterion


def criterion_by_numpy(matrix, grams):
    inverse = np.linalg.inv(matrix)
    m = len(matrix)
    logs = [m * np.log(np.trace(inverse @ gram)) for gram in grams]
    return np.mean(logs) + np.linalg.slogdet(matrix)[1]


@pytest.mark.parametrize("m", [12, 60])  # below and above the size solved side by side
def test_criterion_and_its_slope_are_those_of_the_definition(m):
    u = np.random.default_rng(0).normal(size=(m, 2))
    grams = np.stack([np.asarray(K.gram(y, y)) for y in (np.sin(u), np.exp(0.3 * u))])

    def matrix(x):
        return np.asarray(owlfi.SquaredExponential(np.exp(x)).gram(u, u)) + 1e-3 * np.eye(m)

    def ours(x):
        c = owlfi.SquaredExponential(jnp.exp(x)).gram(u, u) + 1e-3 * jnp.eye(m)
        return kernel_fit.likelihood(c, jnp.asarray(grams))

    x, step = np.array([0.1, -0.2]), 1e-5
    assert_allclose(ours(x), criterion_by_numpy(matrix(x), grams), rtol=1e-10)
    slope = [
        (criterion_by_numpy(matrix(x + e), grams) - criterion_by_numpy(matrix(x - e), grams))
        / (2 * step)
        for e in step * np.eye(2)
    ]
    assert_allclose(jax.grad(ours)(jnp.asarray(x)), slope, rtol=1e-5)


def test_leave_one_out_error_is_the_one_of_leaving_each_point_out():
    noise = owlfi.Normal()
    u = owlfi.sobol(KEY, 64, noise)
    y = jnp.sin(3 * u)
    found = tune(K, noise, u[None], y[None, None])
    fit = jax.tree.map(lambda leaf: leaf[0], found.fit)
    c = kernel_fit.FAMILIES[int(fit.family)](fit.lengthscale) + fit.constant
    gram, data = np.asarray(c.gram(u, u)), np.asarray(K.gram(y, y))
    gram = gram + float(fit.nugget) * np.eye(64)
    errors, plain = [], []
    for i in range(64):
        rest = np.delete(np.arange(64), i)
        for weights, into in (
            (np.linalg.solve(gram[np.ix_(rest, rest)], gram[rest, i]), errors),
            (np.full(63, 1 / 63), plain),
        ):
            inner = weights @ data[np.ix_(rest, rest)] @ weights
            into.append(data[i, i] - 2 * weights @ data[rest, i] + inner)
    assert_allclose(fit.unexplained, np.mean(errors) / np.mean(plain), rtol=1e-2)


# What the fit finds


def test_an_idle_coordinate_gets_a_long_lengthscale():
    found = tune_to(lambda u: jnp.sin(2 * u[:, :1]), owlfi.Normal(dim=2))
    busy, idle = np.asarray(found.certificate.lengthscale)
    assert idle > 10 * busy


CLAIMS = owlfi.Exponential(dim=8)


def log_claims(u):
    """The logarithm of a sum with heavy tails."""
    return jnp.log(jnp.expm1(u / 2.5).sum(1, keepdims=True))


@pytest.mark.slow
def test_what_is_rough_is_not_lost_in_short_lengthscales():
    fit = tune_to(log_claims, CLAIMS, 256, k=owlfi.SquaredExponential(0.3)).certificate.fit
    assert fit.unexplained < 0.5
    assert fit.lengthscale.min() > 0.3


@pytest.mark.slow
def test_a_fit_that_errs_to_one_side_makes_no_biased_weights():
    k, law = owlfi.SquaredExponential(0.6), log_claims(owlfi.sobol(KEY, 2**13, CLAIMS))
    designs = jnp.stack([owlfi.sobol(jax.random.key(i), 256, CLAIMS) for i in range(4)])
    found = owlfi.tuned_weights(k, CLAIMS, designs, jax.vmap(log_claims)(designs))
    fits = found.certificate.fit
    assert (fits.bias > 10).all()
    assert not (fits.coordinates + fits.family).any()  # as given, squared exponential

    def shared_error(weights):
        """Of the mean of all designs: bias, and a quarter of the variance."""
        y = log_claims(designs.reshape(-1, 8))
        return owlfi.squared_mmd(k, y, law, weights=weights.ravel() / len(designs))

    def weigh(u, fit):
        c = owlfi.SquaredExponential(fit.lengthscale) + fit.constant
        return owlfi.optimal_weights(c, CLAIMS, u, nugget=float(fit.nugget)).weights

    each = [jax.tree.map(lambda leaf, i=i: leaf[i], (designs, fits)) for i in range(4)]
    biased = jnp.stack([weigh(*one) for one in each])
    assert shared_error(found.weights) < 0.2 * shared_error(biased)


def test_smooth_functions_choose_the_smooth_family_and_kinks_a_rough_one():
    smooth = tune_to(lambda u: jnp.sin(u), owlfi.Normal())
    kinked = tune_to(lambda u: jnp.abs(u - 0.1), owlfi.Uniform(-1, 1))
    assert int(smooth.certificate.family) == 0
    assert int(kinked.certificate.family) > 0


def squared_error(points, weights):
    """Of the integral of k(sin(u), 0.5), which has norm 1: at most the excess squared MMD."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    exact = shares @ np.exp(-0.5 * (np.sin(nodes) - 0.5) ** 2) / np.sqrt(2 * np.pi)
    values = np.exp(-0.5 * (np.sin(points[..., 0]) - 0.5) ** 2)
    return ((weights * values).sum(-1) - exact) ** 2


def test_weights_reach_the_integral_of_functions_of_y():
    found = tune_to(jnp.sin, owlfi.Normal())
    assert squared_error(found.points, found.weights) < 3 * found.certificate.excess


def test_normal_scores_of_exponential_noise_are_normal():
    noise = owlfi.Product(owlfi.Exponential(2.0, dim=2), owlfi.Uniform())
    u = owlfi.sobol(KEY, 256, noise)
    (native, same, *_), (law, scores, *_) = coordinate_systems(noise, u)
    assert native is noise
    assert_allclose(same, u)
    assert [type(part).__name__ for part in law.parts] == ["Normal", "Uniform"]
    expected = scipy.stats.norm.ppf(-np.expm1(-2 * np.asarray(u[:, :2])))
    assert_allclose(scores[:, :2], expected, atol=1e-9)
    assert_allclose(scores[:, 2], u[:, 2])


def test_scores_are_chosen_where_they_make_the_simulator_smooth():
    noise = owlfi.Exponential(1.0)
    u = owlfi.sobol(KEY, 64, noise)

    def choose_system(y):
        return int(tune(K, noise, u[None], y[None, None]).fit.coordinates[0])

    assert choose_system(jnp.sin(u)) == 0
    assert choose_system(jax.scipy.special.ndtri(-jnp.expm1(-u))) == 1


@pytest.mark.parametrize(
    "noise",
    [
        scipy.stats.gumbel_r(),
        owlfi.StudentT(3.0),
        owlfi.Poisson(3.0),
        owlfi.Mixture([owlfi.Normal(-2, 1), owlfi.Normal(2, 1)], [0.5, 0.5]),
        owlfi.Empirical(np.linspace(-1, 1, 40)),
    ],
    ids=["frozen", "Student t", "Poisson", "mixture", "empirical"],
)
def test_every_kind_of_noise_can_be_tuned(noise):
    found = tune_to(jnp.sin, noise)
    assert np.isfinite(found.weights).all()
    assert np.isfinite(found.certificate.excess)
    assert abs(found.sum_of_weights - 1) < 0.1


def test_several_thetas_share_one_set_of_weights_and_designs_have_their_own():
    noise, u = owlfi.Normal(), independent_designs()
    one = owlfi.sobol(KEY, 40, noise)
    pooled = owlfi.tuned_weights(K, noise, one, jnp.stack([jnp.sin(one), jnp.cos(one), one]))
    assert pooled.weights.shape == (40,)
    own = owlfi.tuned_weights(K, noise, u, jnp.sin(u))
    assert own.weights.shape == (50, 10)
    assert own.certificate.lengthscale.shape == (50, 1)
    both = owlfi.tuned_weights(K, noise, u, jnp.stack([jnp.sin(u), jnp.cos(u)], 1))
    assert both.weights.shape == (50, 10)
    for found in (own, both):
        right, wrong = (squared_error(u, w) for w in (found.weights, found.weights[::-1]))
        assert np.median(right / found.certificate.excess) < 3
        assert np.median(right / wrong) < 0.1


# The certificate


def test_certificate_is_near_the_true_error():
    model = models.two_moons()
    k = owlfi.SquaredExponential(0.3)
    law = law_of(KEY, model, model.theta, k)
    ratios, gains = [], []
    for i in range(12):
        u = owlfi.iid(jax.random.fold_in(KEY, i), 64, model.measure)
        y = simulate_rows(model, model.theta, u)
        found = owlfi.tuned_weights(k, model.measure, u, y)
        weights = jnp.stack([found.weights, jnp.full(64, 1 / 64)])
        error, equal = excesses(k, law, y[None], weights[None])[0]
        ratios.append(found.certificate.excess / error)
        gains.append(error / equal)
        assert found.sum_of_absolute_weights <= 31
    assert 1 / 3 < np.median(ratios) < 3
    assert np.median(gains) < 0.1


def test_unseen_tails_are_told():
    model = models.g_and_k()
    k = owlfi.SquaredExponential(0.5)
    found = tune_to(lambda u: model.rows(model.theta, u), model.measure, k=k)
    assert found.certificate.tails > 3
    assert "outermost points" in found.explain()


# Where weights do no good


def test_noise_that_has_nothing_to_do_with_u_gets_equal_weights():
    found = tune_to(lambda u: jax.random.normal(KEY, u.shape), owlfi.Normal(dim=2))
    assert int(found.certificate.verdict) == Verdict.UNEXPLAINED
    assert_allclose(found.weights, 1 / 64)
    assert found.certificate.unexplained > 0.9
    assert "Equal weights are used" in found.explain()


def test_constant_output_is_exact_with_equal_weights():
    found = tune_to(lambda u: jnp.full((64, 2), 3.0), owlfi.Normal(dim=2))
    assert int(found.certificate.verdict) == Verdict.CONSTANT
    assert_allclose(found.weights, 1 / 64)
    assert found.certificate.excess == 0
    assert "do not depend on u" in found.explain()


@pytest.mark.parametrize("m", [1, 2, 3])
def test_too_few_points_get_equal_weights(m):
    found = tune_to(jnp.sin, owlfi.Normal(), m=m)
    assert int(found.certificate.verdict) == Verdict.TOO_FEW
    assert_allclose(found.weights, 1 / m)
    assert "too few" in found.explain()


@pytest.mark.parametrize(("m", "s"), [(4, 1), (5, 6), pytest.param(30, 40, marks=pytest.mark.slow)])
def test_few_points_and_more_coordinates_than_points_are_tuned(m, s):
    found = tune_to(lambda u: jnp.sin(u).sum(1), owlfi.Normal(dim=s), m=m)
    assert np.isfinite(found.weights).all()
    assert len(found.explain()) > 40


def test_discrete_output_is_tuned():
    found = tune_to(jnp.round, owlfi.Normal())
    assert np.isfinite(found.weights).all()
    assert_allclose(found.weights.sum(), 1.0, atol=0.1)


def test_repeated_points_are_tuned():
    u = jnp.repeat(owlfi.sobol(KEY, 32, owlfi.Normal()), 2, axis=0)
    found = owlfi.tuned_weights(K, owlfi.Normal(), u, jnp.sin(u))
    assert np.isfinite(found.weights).all()


def test_no_weights_explode():
    u = independent_designs()
    found = owlfi.tuned_weights(K, owlfi.Normal(), u, jnp.exp(u))
    assert found.sum_of_absolute_weights.max() < 31
    assert "50 designs" in found.explain()


# Bad input


@pytest.mark.parametrize(
    ("points", "y"),
    [((8, 1), (7, 1)), ((2, 8, 1), (8, 1)), ((2, 8, 1), (3, 8, 1)), ((8, 1), (2, 2, 8, 1))],
)
def test_shapes_that_do_not_fit_are_refused(points, y):
    with pytest.raises(ValueError, match="y must hold one row for each point"):
        owlfi.tuned_weights(K, owlfi.Normal(), jnp.zeros(points), jnp.zeros(y))


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="y has a value that is NaN"):
        owlfi.tuned_weights(K, owlfi.Normal(), [0.0, 1.0], [np.nan, 1.0])


# What lies beyond the coordinates that c sees


def test_a_kernel_that_is_linear_beyond_its_coordinates_has_the_embedding_of_the_kernel():
    """∫∫ c(v, v') (1 + a r r') over v' and r' is ∫ c(v, v') over v'."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    shares = shares / shares.sum()
    v, r = (part.ravel() for part in np.meshgrid(nodes, nodes))
    both = np.outer(shares, shares).ravel()
    place, c = np.array([[0.3]]), owlfi.SquaredExponential(0.8)
    rows, others = as_jax(np.concatenate([place, v[:, None]])), np.append(1.7, r)
    products = as_jax(np.outer(others, others))
    gram = np.asarray(kernel_fit.with_rest(c.gram(rows, rows), jnp.array(0.4), products))
    expected = 0.8 / np.hypot(0.8, 1) * np.exp(-0.5 * 0.3**2 / (0.8**2 + 1))
    assert_allclose(gram[0, 1:] @ both, expected, rtol=1e-9)
    assert_allclose(both @ gram[1:, 1:] @ both, 0.8 / np.sqrt(0.8**2 + 2), rtol=1e-9)


def test_directions_that_matter_little_are_integrated_as_well_as_points_fill_them():
    """Noise in 19 small directions, linear in y: Sobol points hardly see it as noise."""
    sizes = np.where(np.arange(24) < 5, 1.0, 0.3)
    directions = rotation_to(np.eye(24)[:, :5])
    noise = Rotated(owlfi.Normal(dim=24), directions, as_jax(np.full(5, 0.15)))
    l2, k = 16.0, owlfi.SquaredExponential(4.0)
    designs = jnp.stack([owlfi.sobol(jax.random.key(i), 64, noise) for i in range(4)])
    y = np.asarray(designs) * sizes
    found = owlfi.tuned_weights(k, noise, designs, y)
    assert (np.asarray(found.certificate.fit.linear) > 0.01).all()
    scaled = y / np.sqrt(l2 + sizes**2)
    mean = np.prod(l2 / (l2 + sizes**2)) ** 0.5 * np.exp(-0.5 * (scaled**2).sum(-1))
    norm2 = np.prod(l2 / (l2 + 2 * sizes**2)) ** 0.5
    weights = np.asarray(found.weights)
    grams = [np.asarray(k.gram(rows, rows)) for rows in map(as_jax, y)]
    pairs = [w @ gram @ w for w, gram in zip(weights, grams, strict=True)]
    excess = np.array(pairs) - 2 * (weights * mean).sum(1) + norm2
    assert_allclose(found.certificate.excess.mean(), excess.mean(), rtol=0.25)  # noise: 5 times
