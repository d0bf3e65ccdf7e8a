"""What the library shows: one file for each demonstration, table or figure."""

from owlfi.experiments.accuracy import ACCURACY
from owlfi.experiments.beyond import BEYOND
from owlfi.experiments.convergence import CONVERGENCE
from owlfi.experiments.exchange import EXCHANGE
from owlfi.experiments.figure3a import FIGURE3A
from owlfi.experiments.figure3b import FIGURE3B
from owlfi.experiments.figure3c import FIGURE3C
from owlfi.experiments.figure3d import FIGURE3D
from owlfi.experiments.figure4 import FIGURE4
from owlfi.experiments.figure_theta3 import FIGURE_THETA3
from owlfi.experiments.power import POWER
from owlfi.experiments.table1 import TABLE1
from owlfi.experiments.table2 import TABLE2
from owlfi.experiments.windfarm import WINDFARM
from owlfi.experiments.windfarm_budget import WINDFARM_BUDGET

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        TABLE1,
        TABLE2,
        FIGURE3A,
        FIGURE3B,
        FIGURE3C,
        FIGURE_THETA3,
        FIGURE3D,
        CONVERGENCE,
        BEYOND,
        FIGURE4,
        ACCURACY,
        WINDFARM,
        WINDFARM_BUDGET,
        EXCHANGE,
        POWER,
    )
}
