"""From measurements to cost tables."""
