"""A problem with known answers: the mean of a normal distribution, with an SE kernel."""

import jax
import numpy as np
import scipy.optimize

import owlfi

LENGTHSCALE = 1.2
WIDE = LENGTHSCALE**2 + 1


def location(theta, u):
    return theta[0] + u


def gaussian_problem(seed=0, n=80, mean=1.3):
    """n observations of N(mean, 1), and the model N(theta, 1) with a normal prior."""
    prior = owlfi.Prior(mean=owlfi.Normal(0.0, 5.0))
    model = owlfi.Simulator(location, owlfi.Normal(), prior.names, prior=prior)
    x = model([mean], owlfi.iid(jax.random.key(seed), n, model.measure))
    return owlfi.Problem(model, x, data_kernel=owlfi.SquaredExponential(LENGTHSCALE))


RULE = owlfi.OptimallyWeighted(m=64, base_kernel=owlfi.SquaredExponential(1.0))
"""Exact to about 1e-7 here."""


def exact_squared_mmd(problem, theta, shares=None):
    """Between N(theta, 1) and the observations, less what does not depend on theta."""
    x = np.asarray(problem.observed)[:, 0]
    shares = np.full(len(x), 1 / len(x)) if shares is None else shares
    means = np.exp(-0.5 * (x - np.asarray(theta)[..., None]) ** 2 / WIDE)
    return -2 * LENGTHSCALE / np.sqrt(WIDE) * means @ shares


def exact_estimate(problem, shares=None):
    start = float(np.mean(np.asarray(problem.observed)))
    found = scipy.optimize.minimize_scalar(
        lambda t: exact_squared_mmd(problem, t, shares),
        bracket=(start - 0.2, start + 0.2),
        options={"xtol": 1e-10},
    )
    return found.x


def exact_standard_error(problem):
    """By the sandwich formula, derivatives written out."""
    x = np.asarray(problem.observed)[:, 0]
    r = x - exact_estimate(problem)
    means = np.exp(-0.5 * r**2 / WIDE) * LENGTHSCALE / np.sqrt(WIDE)
    slopes = means * r / WIDE
    hessian = -2 * np.mean(means * (r**2 / WIDE**2 - 1 / WIDE))
    return np.sqrt(4 * np.var(slopes) / len(x)) / hessian
