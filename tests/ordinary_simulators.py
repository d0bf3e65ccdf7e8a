"""Simulators as people write them: one row, with random numbers of their own."""

import math

import numpy as np
import pandas as pd
from scipy import stats

from owlfi import Prior, Uniform


def sir(theta, rng):
    """Epidemic of 200 people in discrete days: new cases of 20 days."""
    susceptible, infected, cases = 190, 10, []
    for _day in range(20):
        new = rng.binomial(susceptible, 1 - np.exp(-theta[0] * infected / 200))
        recovered = rng.binomial(infected, theta[1])
        susceptible -= new
        infected += new - recovered
        cases.append(new)
    return cases


def queue(theta, rng):
    """M/G/1: times between departures of 6 customers."""
    arrival = departure = 0.0
    gaps = []
    for _customer in range(6):
        service = rng.uniform(theta[0], theta[0] + theta[1])
        arrival += rng.exponential(1 / theta[2])
        left = service + max(arrival, departure)
        gaps.append(math.log(left - departure))
        departure = left
    return gaps


class Shop:
    """Sells from a stock; demand is drawn by rejection below what the market holds."""

    def __init__(self, rate, rng):
        self.rate, self.rng = rate, rng
        self.stock, self.lost = 20, 0

    def demand(self):
        while True:
            wanted = self.rng.gamma(2.0, self.rate)
            if wanted < 3 * self.rate:
                return wanted

    def run(self, days):
        sold = 0.0
        for _ in range(days):
            wanted = self.demand()
            sold += min(wanted, self.stock)
            self.lost += wanted > self.stock
            self.stock = max(self.stock - wanted, 0.0)
            if self.stock < 5:
                self.stock += self.rng.integers(10, 20, endpoint=True)
        return sold


def inventory(theta, rng):
    """Sales, stock and lost days of a shop; rejection loops change the number of draws."""
    shop = Shop(theta[0], rng)
    sold = shop.run(15)
    return {"sold": sold, "stock": shop.stock, "lost": shop.lost}


def branching(theta, rng):
    """Galton and Watson: sizes of 8 generations, with early extinction."""
    sizes = np.zeros(8)
    population = 3
    for generation in range(8):
        population = int(rng.poisson(theta[0], size=min(population, 500)).sum())
        if population == 0:
            break
        sizes[generation] = population
    return np.log1p(sizes)


def brownian(theta, rng):
    """Geometric Brownian motion at 12 times: final value, largest and smallest."""
    increments = theta[0] / 12 + theta[1] * math.sqrt(1 / 12) * rng.standard_normal(12)
    path = np.exp(np.cumsum(increments))
    return np.array([path[-1], path.max(), path.min()])


def wright_fisher(theta, rng):
    """Frequency of an allele under selection and drift, every 5th of 30 generations."""
    frequency, seen = 0.3, []
    for generation in range(30):
        p = frequency * (1 + theta[0]) / (1 + frequency * theta[0])
        frequency = rng.binomial(100, p) / 100
        if generation % 5 == 4:
            seen.append(frequency)
    return seen


def predator_prey(theta, rng):
    """Tau-leaped Lotka and Volterra: both populations at 8 times."""
    state = {"prey": 50, "predators": 40}
    history = []
    for _step in range(8):
        born, eaten, died = rng.poisson(
            [
                theta[0] * state["prey"] * 0.3,
                theta[1] * state["prey"] * state["predators"] * 0.3,
                0.5 * state["predators"] * 0.3,
            ]
        )
        state["prey"] = max(state["prey"] + born - eaten, 0)
        state["predators"] = max(state["predators"] + eaten - died, 0)
        history.append([state["prey"], state["predators"]])
    return pd.DataFrame(history, columns=["prey", "predators"])


def autoregression(theta, rng):
    """AR(1) with Student t noise from scipy.stats, 10 steps."""
    noise = stats.t.rvs(4.0, scale=theta[1], size=10, random_state=rng)
    y = np.zeros(10)
    for i in range(10):
        y[i] = theta[0] * y[i - 1] * (i > 0) + noise[i]
    return y


def agents(theta, rng):
    """100 agents adopt what a random acquaintance has; adopters after each of 6 days."""
    adopted = np.zeros(100, bool)
    adopted[rng.choice(100, size=5, replace=False)] = True
    counts = []
    for _day in range(6):
        met = rng.integers(0, 100, size=100)
        adopted = adopted | (adopted[met] & (rng.random(100) < theta[0]))
        counts.append(adopted.sum())
    return pd.Series(counts)


def radio_channel(theta, rng):
    """Turin's model: log moments of the power of a channel with randomly many paths."""
    times = np.linspace(0.0, 1.0, 32)
    signal = np.zeros(32, complex)
    for delay in np.sort(rng.uniform(size=rng.poisson(theta[0]))):
        sd = np.sqrt(np.exp(-delay / theta[1]) / 2)
        gain = rng.normal(0.0, sd) + 1j * rng.normal(0.0, sd)
        signal += gain * np.exp(2j * np.pi * 8 * delay * times)
    signal += 0.05 * (rng.normal(size=32) + 1j * rng.normal(size=32))
    power = np.abs(signal) ** 2
    return np.log([power.mean(), (times * power).mean(), (times**2 * power).mean()])


SIMULATORS = {
    sir: Prior(contact=Uniform(0.2, 0.8), recovery=Uniform(0.1, 0.4)),
    queue: Prior(least=Uniform(0.5, 2), width=Uniform(1, 5), rate=Uniform(0.1, 0.5)),
    inventory: Prior(rate=Uniform(1, 4)),
    branching: Prior(children=Uniform(0.5, 1.8)),
    brownian: Prior(drift=Uniform(-0.5, 0.5), volatility=Uniform(0.1, 0.6)),
    wright_fisher: Prior(selection=Uniform(-0.1, 0.3)),
    predator_prey: Prior(birth=Uniform(0.3, 1), catch=Uniform(0.005, 0.02)),
    autoregression: Prior(memory=Uniform(-0.9, 0.9), scale=Uniform(0.5, 2)),
    agents: Prior(eagerness=Uniform(0.1, 0.9)),
    radio_channel: Prior(paths=Uniform(5, 20), decay=Uniform(0.1, 1)),
}


def smooth_path(theta, rng):
    """Geometric Brownian motion, seen at three of 12 times."""
    steps = theta[0] / 12 + theta[1] * math.sqrt(1 / 12) * rng.standard_normal(12)
    return np.cumsum(steps)[[3, 7, 11]]


def growth(theta, rng):
    """Log sums of gamma increments."""
    return np.log(rng.gamma(theta[0], size=5).cumsum()[[0, 2, 4]])


def mixed_kinds(theta, rng):
    """Five families, one draw each."""
    z, wait, v = rng.normal(), rng.exponential(theta[0]), rng.random()
    return [z + wait, math.sin(v) * wait, rng.laplace() + rng.standard_t(5) * z]


def claims(theta, rng):
    """The log of the sum of claims with heavy tails."""
    return [np.log(rng.pareto(theta[0], size=8).sum())]


SMOOTH = {
    smooth_path: Prior(drift=Uniform(-0.5, 0.5), volatility=Uniform(0.1, 0.6)),
    growth: Prior(shape=Uniform(0.5, 3)),
    mixed_kinds: Prior(scale=Uniform(0.5, 3)),
    claims: Prior(tail=Uniform(1.5, 5)),
    queue: SIMULATORS[queue],
    autoregression: SIMULATORS[autoregression],
}


def of_seed(theta, seed):
    """Builds generators that owlfi does not see."""
    state = np.random.RandomState(seed)
    return theta[0] + state.normal(size=2)
