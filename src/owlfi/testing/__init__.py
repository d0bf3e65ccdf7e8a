"""Tests: do two samples agree, and could a model have produced the data?"""

from owlfi.testing.cost import Cost, plan_goodness_of_fit
from owlfi.testing.goodness_of_fit import goodness_of_fit
from owlfi.testing.searches import Adam
from owlfi.testing.two_sample import two_sample
from owlfi.testing.wild import wild_goodness_of_fit
