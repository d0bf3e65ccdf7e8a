"""Point sets: where a simulator is run."""
