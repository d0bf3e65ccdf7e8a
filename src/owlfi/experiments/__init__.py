"""What the library shows: one file for each demonstration, table or figure, or family of them."""

from collections import UserDict
from importlib import import_module
from typing import Any

_WHERE = {  # each experiment, by the name it is asked for and the module that has it
    "table1": "table1.TABLE1",
    "table2": "composite_tests.TABLE2",
    "figure3a": "figure3.FIGURE3A",
    "figure3b": "figure3.FIGURE3B",
    "figure3c": "figure3.FIGURE3C",
    "figure-theta3": "figure3.FIGURE_THETA3",
    "figure3d": "figure3d.FIGURE3D",
    "convergence": "convergence.CONVERGENCE",
    "beyond": "beyond.BEYOND",
    "gradients": "gradients.GRADIENTS",
    "dimensions": "dimensions.DIMENSIONS",
    "figure4": "figure4.FIGURE4",
    "accuracy": "accuracy.ACCURACY",
    "efficiency": "efficiency.EFFICIENCY",
    "windfarm": "windfarm.WINDFARM",
    "windfarm-budget": "windfarm_budget.WINDFARM_BUDGET",
    "exchange": "exchange_rates.EXCHANGE",
    "power": "composite_tests.POWER",
    "levels": "levels.LEVELS",
    "trust": "trust.estimates.TRUST",
    "trust-bootstrap": "trust.methods.BOOTSTRAP",
    "trust-mmd-bayes": "trust.methods.MMD_BAYES",
    "trust-pseudo-marginal": "trust.methods.PSEUDO_MARGINAL",
    "trust-abc": "trust.methods.ABC",
    "trust-abc-adjusted": "trust.methods.ADJUSTED",
    "trust-sequential-abc": "trust.methods.SEQUENTIAL",
    "trust-written": "trust.as_written.WRITTEN_TRUST",
    "contamination": "contamination.CONTAMINATION",
}


class _Experiments(UserDict[str, Any]):
    """Experiments by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, str):
            module, constant = found.rsplit(".", 1)
            found = self[name] = getattr(import_module(f"{__name__}.{module}"), constant)
        return found


EXPERIMENTS = _Experiments(_WHERE)
