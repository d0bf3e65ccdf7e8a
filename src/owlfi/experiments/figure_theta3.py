"""The appendix's figure: the skewness theta_3 of the multivariate g-and-k distribution."""

from owlfi.experiments.parameters import parameter_experiment

FIGURE_THETA3 = parameter_experiment(
    "figure-theta3",
    place=2,
    values=(0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0),
    shows="theta_3 (skewness): the same, but less so",
    takes="1 min",
)
