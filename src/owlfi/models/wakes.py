"""The thrust of a turbine deep inside a wind farm, from a low-order wake model.

Turbines of diameter D = 100 m and hub height 100 m stand on a square grid of spacing S = 750 m. The
wind blows at 10 m/s with turbulence intensity I₀ = 0.1, at theta degrees to the rows. The simulator
returns C_T* = c (U_T / U_F)², the local thrust coefficient of the turbine at the origin, where
c = 1.33 + 0.001 u is its resistance and u is standard normal. With induction a = c / (4 + c) and
C_T = 4 a (1 - a), a turbine with incoming speed V and turbulence I changes the wind at distance
s > 0 downwind and r off the axis by

    deficit      V (1 - sqrt(max(0, 1 - C_T D² / (8 σ²)))) exp(-r² / (2 σ²)),
    width        σ = (0.38 I + 0.004) s + 0.2 D sqrt((1 + q) / (2 q)),  q = sqrt(1 - C_T),
    turbulence   0.73 a^0.8325 I₀^0.0325 (D / s)^0.32 x the share of the rotor within r < 2 σ.

Deficits add up, and only the largest added turbulence A counts: I = sqrt(I₀² + A²). A rotor sees
the average over 4 x 3 Gauss nodes, those outside the disc dropped. U_T is (1 - a) times the speed
at the origin; U_F is the mean speed over a grid of 200 x 200 x 20 points in the box
[-S, 0] x [-S/2, S/2] x [0, 250 m].

C_T* is continuous in u. In theta it has jumps of up to 0.0003, where points of that grid pass from
one side of a rotor to the other or turbines come within 10 km upwind and 2 km to the side, beyond
which they are left out; theta = 0, where whole planes of the grid lie in rotors, stands 0.002 apart
from its neighbours. Derivatives are those of the pieces between the jumps.

Sources: Niayifar and Porté-Agel, "Analytical modeling of wind farms", Energies 9 (2016), for the
wake; Crespo and Hernández, "Turbulence characteristics in wind-turbine wakes", J. Wind Eng. Ind.
Aerodyn. 61 (1996), for the turbulence; Kirby, Briol, Dunstan and Nishino, "Data-driven modelling of
turbine wake interactions and flow resistance in large wind farms", Wind Energy 26 (2023), for the
farm and C_T*. The numbers are those of PyWake 2.5; later versions turn the sign of the exponent of
I₀ and differ by up to 0.004.
"""

from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.legendre import leggauss

DIAMETER = 100.0
RADIUS = DIAMETER / 2
HUB_HEIGHT = 100.0
SPACING = 750.0
WIND_SPEED = 10.0
TURBULENCE = 0.1
UPWIND_REACH = 10_000.0
SIDE_REACH = 2_000.0
BOX_HEIGHT = 250.0
MOST_TURBINES = 80  # at most 75 matter in any wind direction
NEAR_TURBINES = 16  # all others are at least 1 km upwind of the box
SMOOTH_NODES = 40


class Turbines(NamedTuple):
    """The turbines that matter, upwind first, in the coordinates of the wind."""

    along: Float[Array, " t"]
    across: Float[Array, " t"]
    present: Bool[Array, " t"]


class Thrust(NamedTuple):
    """What the resistance decides: induction factor, thrust coefficient, width of a new wake."""

    induction: Float[Array, ""]
    coefficient: Float[Array, ""]
    width: Float[Array, ""]


class Wakes(NamedTuple):
    """Wakes by the speed that enters the rotor and the growth of the width per metre."""

    speed: Float[Array, " t"]
    growth: Float[Array, " t"]


class Box(NamedTuple):
    """Points and weights whose sums stand for the mean over the floor of the box."""

    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]


def thrust_coefficient(theta: Float[Array, " 1"], u: Float[Array, "m 1"]) -> Float[Array, "m 1"]:
    """C_T* in wind from theta degrees for each standard normal u."""
    return jax.lax.map(lambda noise: _run(theta[0], noise[0]), u)[:, None]


def _simulate(theta: Float[Array, ""], noise: Float[Array, ""]) -> Float[Array, ""]:
    resistance = 1.33 + 0.001 * noise
    angle, thrust = jnp.deg2rad(theta), _thrust(resistance)
    turbines = _turbines(angle)
    wakes, speed_at_origin = _propagate(turbines, thrust)
    disc_speed = (1 - thrust.induction) * speed_at_origin
    return resistance * (disc_speed / _box_speed(angle, turbines, wakes, thrust)) ** 2


_run = jax.custom_jvp(_simulate)  # two inputs: forward mode is far cheaper than reverse


@_run.defjvp
def _run_jvp(inputs: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    theta, noise = inputs
    value, by_theta = jax.jvp(lambda t: _simulate(t, noise), (theta,), (jnp.ones_like(theta),))
    _, by_noise = jax.jvp(lambda z: _simulate(theta, z), (noise,), (jnp.ones_like(noise),))
    return value, by_theta * tangents[0] + by_noise * tangents[1]


def _thrust(resistance: Float[Array, ""]) -> Thrust:
    induction = resistance / (4 + resistance)
    coefficient = 4 * induction * (1 - induction)
    q = jnp.sqrt(1 - coefficient)
    return Thrust(induction, coefficient, 0.2 * DIAMETER * jnp.sqrt((1 + q) / (2 * q)))


def _rotate(x: Array | np.ndarray, y: Array | np.ndarray, angle: Array) -> tuple[Array, Array]:
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return cos * x - sin * y, sin * x + cos * y


def _turbines(angle: Float[Array, ""]) -> Turbines:
    along, across = _rotate(_FARM_X, _FARM_Y, angle)
    behind_box = _rotate(*_BOX_CORNERS, angle)[0].max()
    kept = (along > -UPWIND_REACH) & (jnp.abs(across) < SIDE_REACH) & (along < behind_box)
    order = jnp.argsort(jnp.where(kept, along, -jnp.inf))[-MOST_TURBINES:]
    return Turbines(along[order], across[order], kept[order])


def _centre_deficit(speed: Array, coefficient: Array, sigma: Array) -> Array:
    radicand = 1 - coefficient * DIAMETER**2 / (8 * sigma**2)
    positive = radicand > 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, radicand, 1.0)), 0.0)
    return speed * (1 - root)


def _rotor_average(offset: Float[Array, " t"], sigma: Float[Array, " t"]) -> Float[Array, " t"]:
    x, z, weights = _ROTOR_NODES
    squared_distance = (offset[:, None] + RADIUS * x[None]) ** 2 + (RADIUS * z[None]) ** 2
    return jnp.exp(-squared_distance / (2 * sigma[:, None] ** 2)) @ weights


def _overlap(wake: Float[Array, " t"], distance: Float[Array, " t"]) -> Float[Array, " t"]:
    """The share of a rotor inside a wake of the given radius."""
    big, small = jnp.maximum(wake, RADIUS), jnp.minimum(wake, RADIUS)
    inside, partly = distance <= big - small, distance < big + small
    lens = jnp.where(partly & ~inside, distance, big)  # keeps the unused branch differentiable
    alpha, beta = _half_angle(big, small, lens), _half_angle(small, big, lens)
    area = alpha * big**2 + beta * small**2 - big * lens * jnp.sin(alpha)
    return jnp.where(inside, 1.0, jnp.where(partly, area / (jnp.pi * RADIUS**2), 0.0))


def _half_angle(radius: Array, other: Array, distance: Array) -> Array:
    cosine = (radius**2 + distance**2 - other**2) / (2 * radius * distance)
    return jnp.arccos(jnp.clip(cosine, -1 + 1e-15, 1 - 1e-15))  # finite slope where circles touch


def _propagate(turbines: Turbines, thrust: Thrust) -> tuple[Wakes, Float[Array, ""]]:
    """All wakes, and the speed that enters the turbine at the origin."""

    def pass_turbine(state: tuple[Array, Array], index: Array) -> tuple[tuple[Array, Array], Wakes]:
        deficit, added = state
        intensity = jnp.sqrt(TURBULENCE**2 + added[index] ** 2)
        wake = Wakes(WIND_SPEED - deficit[index], 0.38 * intensity + 0.004)
        new_deficit, new_added = _effect_on_rotors(turbines, index, wake, thrust)
        return (deficit + new_deficit, jnp.maximum(added, new_added)), wake

    nothing = jnp.zeros_like(turbines.along)
    (deficit, _), wakes = jax.lax.scan(pass_turbine, (nothing, nothing), jnp.arange(MOST_TURBINES))
    origin = jnp.argmin(turbines.along**2 + turbines.across**2)
    return wakes, WIND_SPEED - deficit[origin]


def _effect_on_rotors(
    turbines: Turbines, index: Array, wake: Wakes, thrust: Thrust
) -> tuple[Float[Array, " t"], Float[Array, " t"]]:
    downwind = turbines.along - turbines.along[index]
    offset = turbines.across - turbines.across[index]
    hit = (downwind > 0) & turbines.present[index]
    downwind = jnp.where(hit, downwind, DIAMETER)
    sigma = wake.growth * downwind + thrust.width
    centre = _centre_deficit(wake.speed, thrust.coefficient, sigma)
    deficit = centre * _rotor_average(offset, sigma)
    strength = 0.73 * thrust.induction**0.8325 * TURBULENCE**0.0325
    added = strength * (DIAMETER / downwind) ** 0.32 * _overlap(2 * sigma, jnp.abs(offset))
    return jnp.where(hit, deficit, 0.0), jnp.where(hit, added, 0.0)


def _box_speed(
    angle: Float[Array, ""], turbines: Turbines, wakes: Wakes, thrust: Thrust
) -> Float[Array, ""]:
    def deficit(box: Box, chosen: slice) -> Float[Array, ""]:
        some, theirs = Turbines(*(a[chosen] for a in turbines)), Wakes(*(a[chosen] for a in wakes))
        return _box_deficit(box, angle, some, theirs, thrust)

    near, far = slice(-NEAR_TURBINES, None), slice(0, -NEAR_TURBINES)
    return WIND_SPEED - deficit(_FULL_BOX, near) - deficit(_SMOOTH_BOX, far)


def _box_deficit(
    box: Box, angle: Float[Array, ""], turbines: Turbines, wakes: Wakes, thrust: Thrust
) -> Float[Array, ""]:
    """The mean over the box of the summed deficits."""
    along, across = _rotate(box.x, box.y, angle)
    downwind = along[None] - turbines.along[:, None]
    offset = across[None] - turbines.across[:, None]
    sigma = wakes.growth[:, None] * jnp.maximum(downwind, 0.0) + thrust.width
    centre = _centre_deficit(wakes.speed[:, None], thrust.coefficient, sigma)
    deficit = centre * jnp.exp(-(offset**2) / (2 * sigma**2)) * _height_average(sigma)
    hit = (downwind > 0) & turbines.present[:, None]
    return (jnp.where(hit, deficit, 0.0) @ box.weights).sum()


def _height_average(sigma: Array) -> Array:
    """The mean over heights of exp(-(z - hub)² / (2 σ²)), a polynomial in 1 / (σ² + 30²)."""
    t = 1800.0 / (sigma**2 + 900.0) - 1
    return reduce(lambda value, coefficient: value * t + coefficient, _HEIGHT_POLYNOMIAL)


def _height_polynomial() -> Float[np.ndarray, " d"]:
    heights = np.linspace(0, BOX_HEIGHT, 20)

    def average(t: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        precision = (t + 1) / (900.0 * (1 - t))
        return np.exp(-precision[:, None] * (heights - HUB_HEIGHT) ** 2 / 2).mean(1)

    narrowest = 1800.0 / (20.0**2 + 900.0) - 1  # no wake starts narrower than 20 m
    fit = Chebyshev.interpolate(average, 22, domain=[-1, narrowest])
    return fit.convert(kind=Polynomial, domain=[-1, 1]).coef[::-1]


def _box(nodes: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> Box:
    x, y = np.meshgrid(SPACING * (nodes - 1) / 2, SPACING * nodes / 2)
    return Box(x.ravel(), y.ravel(), np.outer(weights, weights).ravel())


def _gauss_rule_of_even_grid(points: int, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for the mean over evenly spaced points from -1 to 1."""
    k = np.arange(1, nodes)
    beta = k**2 * (points**2 - k**2) / ((4 * k**2 - 1) * (points - 1.0) ** 2)
    values, vectors = np.linalg.eigh(np.diag(np.sqrt(beta), 1) + np.diag(np.sqrt(beta), -1))
    return values, vectors[0] ** 2


def _rotor_nodes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    (x, x_weights), (z, z_weights) = leggauss(4), leggauss(3)
    x, z = (a.ravel() for a in np.meshgrid(x, z))
    weights = np.outer(z_weights, x_weights).ravel() * (x**2 + z**2 < 1)
    inside = weights > 0
    return x[inside], z[inside], weights[inside] / weights.sum()


_ROTOR_NODES = _rotor_nodes()
_FARM_Y, _FARM_X = SPACING * np.mgrid[-2:12, -13:2].reshape(2, -1)
_BOX_CORNERS = SPACING * np.array([-1, 0, -1, 0]), SPACING / 2 * np.array([-1, -1, 1, 1])
_FULL_BOX = _box(np.linspace(-1, 1, 200), np.full(200, 1 / 200))
_SMOOTH_BOX = _box(*_gauss_rule_of_even_grid(200, SMOOTH_NODES))
_HEIGHT_POLYNOMIAL = _height_polynomial()
