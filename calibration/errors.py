"""The one error of the measuring half, which cannot import `simulator.errors`: see `sizes`."""


class CalibrationError(ValueError):
    """A model, device or setting that cannot be calibrated; the command prints it and exits 2."""
