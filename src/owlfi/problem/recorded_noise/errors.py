"""What from_random refuses at once, however a simulator treats exceptions of its own."""


class NotFromNoiseError(ValueError):
    """Random numbers that cannot be taken from u."""
