"""All problems of the trust experiment, none of them chosen for how it comes out."""

from owlfi.experiments.trust_case import Case
from owlfi.experiments.trust_counts import COUNTS
from owlfi.experiments.trust_series import SERIES
from owlfi.experiments.trust_smooth import SMOOTH

PROBLEMS: dict[str, Case] = SMOOTH | SERIES | COUNTS
