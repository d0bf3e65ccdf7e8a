import matplotlib

import owlfi  # noqa: F401  (switches JAX to double precision)

matplotlib.use("Agg")
