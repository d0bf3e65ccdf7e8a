"""The statement of a problem: simulator, prior, observations, and the rule that places points."""
