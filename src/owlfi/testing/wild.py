"""Goodness of fit without refitting: a wild bootstrap of what is left once the fit is made.

Under the null hypothesis MMD²(P_θ̂, Qⁿ) ≈ |Σ_i ψ(x_i) / n|², where ψ(x) is k(x, ·) - μ less its
influence on the estimate: its projection off the tangents ∂μ/∂θ. Random signs of the summands
give its null distribution. Tangents are those of the simulations, or of their regression on theta
where simulations are rough.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from owlfi._tools.checks import as_count, check_memory
from owlfi._tools.covariances import take_out_units
from owlfi._tools.keys import split_key
from owlfi._tools.programs import compile_fully
from owlfi.inference.expected_calls import expect_fit, need_fit
from owlfi.inference.fit import Fit, find_minimum
from owlfi.inference.search.designs import Designs
from owlfi.inference.search.objective import Objective, simulate_with_slopes
from owlfi.inference.search.scatter import Scatter
from owlfi.inference.search.tangent import embedding_metric
from owlfi.kernels import Kernel
from owlfi.problem.problem import Problem, as_problem
from owlfi.problem.rules import Rule, as_rule
from owlfi.problem.spending import Expected, limit_calls
from owlfi.results import HypothesisTest, announce
from owlfi.testing.health import tell_limit, tell_saturated
from owlfi.testing.p_values import check_level, check_rows, check_varies, decide
from owlfi.testing.searches import refuse_constant
from owlfi.weights.quadrature import Quadrature

_MATRICES = 3  # of all pairs of rows, at a time


def _expect(rule: Rule, problem: Problem, designs: int) -> Expected:
    own = problem.simulator.slope_calls(rule.m) + designs * (rule.m + rule.tuning_calls(problem))
    return Expected(need_fit(rule, problem) + own, expect_fit(rule, problem) + own)


@limit_calls(_expect)
def wild_goodness_of_fit(
    key: Key[Array, ""],
    problem: Problem,
    rule: Rule,
    *,
    resamples: int = 999,
    designs: int = 16,
    level: float = 0.05,
    progress: bool = False,
    max_calls: int | None = None,
) -> HypothesisTest:
    """Test whether the model could have produced the data, at the simulations of a single fit.

    resamples: B, how many sets of random signs are drawn; they take no simulation.
    designs: how many more designs of the rule are simulated at the estimate. The error of a design
        is part of the statistic, and random combinations of theirs join the null statistics.
    progress: show what is done.
    max_calls: the most rows that the simulator may compute; fewer than it takes are refused.

    Asymptotic in n and m, where `goodness_of_fit` has the whole procedure in every replicate, at B
    fits. Memory grows with (n + designs · m)².

    Raises ValueError for fewer than 5 observations, a B too small for the level, discrete
    parameters, a model that does not change with one, the U-statistic, simulations at the estimate
    that are not finite, too little memory, and too few calls.

    >>> import owlfi
    >>> model = owlfi.models.g_and_k().fix(theta_3=0.1, theta_4=0.1)
    >>> x = model([3.0, 1.0], owlfi.iid(jax.random.key(0), 500, model.measure))
    >>> rule = owlfi.OptimallyWeighted(m=32, base_kernel=owlfi.Matern(2.5))
    >>> test = owlfi.wild_goodness_of_fit(jax.random.key(1), owlfi.Problem(model, x), rule)
    >>> test.rejected, test.calls < 4000
    (False, True)
    """
    problem, rule = as_problem(problem), as_rule(rule)
    resamples, level = check_level(resamples, level)
    check_rows("observed", len(problem.observed))
    rule.check_weighted("the wild bootstrap")
    designs = as_count("designs", designs, 2)
    check_varies(problem.observed)
    _check_room(len(problem.observed), designs * rule.m)
    fit_key, design_key, sign_key = split_key(key, 3)
    fit = find_minimum("wild_goodness_of_fit", fit_key, problem, rule, progress=progress)
    others, tuned = _draw_others(design_key, problem, rule, fit, designs)
    theta = fit.minimum.theta
    y = _simulate(problem, theta, others.points)
    gram, made = _project(problem, fit, y)
    coefficients = _coefficients(sign_key, resamples, len(problem.observed), others.weights)
    null = _count_freedom(problem) * jnp.sum(coefficients * (coefficients @ gram), 1)
    statistic, floor = float(fit.squared_mmd), _same_in_all_designs(fit.stage.quadrature)
    test = HypothesisTest(
        statistic,
        *decide(np.concatenate([[statistic], null]).clip(floor), level),
        level,
        null,
        problem.prior.names,
        theta,
        calls=fit.calls + made + len(y) + tuned,
        about={"method": "wild bootstrap", "failed": 0},
        warnings=(
            *fit.warnings,
            *tell_limit(len(problem.observed)),
            *tell_saturated(float(jnp.median(null)), floor),
        ),
    )
    return announce(test)


def _check_room(n: int, points: int) -> None:
    """Raises ValueError where a Gram matrix of all rows would not fit into memory."""
    remedy = "take fewer designs, or goodness_of_fit, which needs no such matrix"
    name = f"{n:,} observations and {points:,} points of other designs"
    check_memory(name, _MATRICES * (n + points) ** 2, remedy)


def _same_in_all_designs(quadrature: Quadrature) -> float:
    """The squared MMD that weights leave in every design, unseen by random combinations of them.

    Weights that sum to less than one do so in all designs. No misfit is told from that.
    """
    return 0.0 if quadrature.excess is None else float(jnp.max(quadrature.excess))


def _draw_others(
    key: Key[Array, ""], problem: Problem, rule: Rule, fit: Fit, count: int
) -> tuple[Designs, int]:
    """Designs like that of the fit, whose weights are tuned to the estimate, and the calls."""
    alike = rule.redraw(key, problem, fit.stage.quadrature, count)
    if alike is not None:
        return Designs(alike.points, jnp.broadcast_to(alike.weights, alike.points.shape[:2])), 0
    each = [rule.quadrature(k, problem) for k in split_key(key, count)]
    designs = Designs(jnp.stack([q.points for q in each]), jnp.stack([q.weights for q in each]))
    return designs, sum(q.tuning_calls for q in each)


def _simulate(problem: Problem, theta: Array, points: Float[Array, "j m s"]) -> Array:
    """The rows (j m, d) of all designs."""
    y = jnp.concatenate([problem.simulator.rows(theta, u) for u in points])
    if not bool(jnp.isfinite(y).all()):
        raise ValueError(
            f"y is NaN or infinite for some u at the estimate theta = {np.asarray(theta)}; mend "
            "the generator, or take goodness_of_fit, which counts fits that fail"
        )
    return y


def _count_freedom(problem: Problem) -> float:
    """What is left of n observations has n - p degrees of freedom."""
    n, p = len(problem.observed), len(problem.prior.names)
    return n / max(n - p, 1)


def _project(problem: Problem, fit: Fit, others: Array) -> tuple[Float[Array, "r r"], int]:
    """The Gram matrix of what is left of all rows, and the calls of the tangents."""
    scatter = fit.assessed.landing.scatter
    if fit.rough and scatter is not None:
        xi = scatter.xi_of(fit.minimum.theta)
        return _project_by_regression(scatter, xi, problem.observed, others), 0
    rows = simulate_with_slopes(fit.objective, fit.minimum.theta)
    refuse_constant(problem.prior.names, fit.minimum.theta, rows.slopes)
    objective = fit.objective.with_data(problem.observed)
    return _project_by_slopes(objective, rows.y, rows.slopes, others), rows.calls


@compile_fully
def _project_by_slopes(
    objective: Objective, y: Array, slopes: Array, others: Array
) -> Float[Array, "r r"]:
    """⟨ψ_i, ψ_j⟩ of the observations, then the simulations of the other designs."""
    k, w = objective.data_kernel, objective.weights
    rows = jnp.concatenate([objective.observed, others])

    def mean(at: Array) -> Array:
        """μ on all rows, as a function of the simulations that make it up."""
        return k.gram(rows, at) @ w

    tangents = jax.lax.map(lambda s: jax.jvp(mean, (y,), (s,))[1], slopes)
    own = jax.lax.map(lambda s: jax.jvp(lambda at: w @ (k.gram(y, at) @ w), (y,), (s,))[1], slopes)
    centred = tangents - own[:, None]  # ⟨∂μ, k(row, ·) - μ⟩
    norm = w @ (k.gram(y, y) @ w)
    metric = embedding_metric(objective, y, slopes)
    return _take_off(k, rows, mean(y), norm, centred, metric)


@compile_fully
def _project_by_regression(
    scatter: Scatter, xi: Float[Array, " p"], observed: Array, others: Array
) -> Float[Array, "r r"]:
    """The same, of the regression of embeddings on theta."""
    objective, mixture = scatter.objective, scatter.mixture(xi)
    rows = jnp.concatenate([observed, others])
    along = jax.jacfwd(scatter.mixture)(xi).T
    at_rows, products = scatter.at_rows(rows), scatter.products
    centred = along @ at_rows - (along @ products @ mixture)[:, None]
    norm, metric = mixture @ products @ mixture, along @ products @ along.T
    return _take_off(objective.data_kernel, rows, mixture @ at_rows, norm, centred, metric)


def _take_off(
    k: Kernel, rows: Array, embedded: Array, norm: Array, centred: Array, metric: Array
) -> Float[Array, "r r"]:
    """⟨k(row_i, ·) - μ, k(row_j, ·) - μ⟩ without its part along the tangents."""
    gram = k.gram(rows, rows) - embedded[:, None] - embedded[None] + norm
    alike, units = take_out_units(metric)
    turned = centred / units[:, None]
    return gram - turned.T @ jnp.linalg.pinv(alike, hermitian=True) @ turned


def _coefficients(
    key: Key[Array, ""], count: int, n: int, weights: Float[Array, "j m"]
) -> Float[Array, "b r"]:
    """Signs of the observations, and normal combinations of the designs that sum to zero."""
    sign_key, normal_key = jax.random.split(key)
    signs = jax.random.rademacher(sign_key, (count, n), float) / n
    normal = jax.random.normal(normal_key, (count, len(weights)))
    centred = (normal - normal.mean(1, keepdims=True)) / (len(weights) - 1) ** 0.5
    combined = centred[:, :, None] * weights[None]
    return jnp.concatenate([signs, combined.reshape(count, -1)], 1)
