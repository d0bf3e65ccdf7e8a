"""Figure 3c: the kurtosis theta_4 of the multivariate g-and-k distribution."""

from owlfi.experiments.parameters import parameter_experiment

FIGURE3C = parameter_experiment(
    "figure3c",
    place=3,
    values=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    shows="theta_4 (kurtosis): optimal weights lose as the tails grow",
    takes="1 min",
)
