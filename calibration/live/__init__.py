"""Live validation: the simulator's schedulers drive a real decoder, and both are compared."""
