"""All problems of the trust experiment, none of them chosen for how it comes out."""

from owlfi.experiments.trust.case import Case
from owlfi.experiments.trust.counts import COUNTS
from owlfi.experiments.trust.series import SERIES
from owlfi.experiments.trust.smooth import SMOOTH

PROBLEMS: dict[str, Case] = SMOOTH | SERIES | COUNTS
