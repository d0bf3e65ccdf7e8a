"""The efficient discrepancy: as accurate as maximum likelihood where the model fits, and robust."""
