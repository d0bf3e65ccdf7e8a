"""What the library shows: one file for each demonstration, table or figure, or family of them."""

from owlfi.experiments.accuracy import ACCURACY
from owlfi.experiments.beyond import BEYOND
from owlfi.experiments.composite_tests import POWER, TABLE2
from owlfi.experiments.contamination import CONTAMINATION
from owlfi.experiments.convergence import CONVERGENCE
from owlfi.experiments.exchange_rates import EXCHANGE
from owlfi.experiments.figure3 import FIGURE3A, FIGURE3B, FIGURE3C, FIGURE_THETA3
from owlfi.experiments.figure3d import FIGURE3D
from owlfi.experiments.figure4 import FIGURE4
from owlfi.experiments.table1 import TABLE1
from owlfi.experiments.trust import TRUST
from owlfi.experiments.windfarm import WINDFARM
from owlfi.experiments.windfarm_budget import WINDFARM_BUDGET

_TABLES_AND_FIGURE_3 = (TABLE1, TABLE2, FIGURE3A, FIGURE3B, FIGURE3C, FIGURE_THETA3, FIGURE3D)
_FURTHER = (CONVERGENCE, BEYOND, FIGURE4, ACCURACY, WINDFARM, WINDFARM_BUDGET, EXCHANGE, POWER)
_PROOFS = (TRUST, CONTAMINATION)
EXPERIMENTS = {
    experiment.name: experiment for experiment in _TABLES_AND_FIGURE_3 + _FURTHER + _PROOFS
}
