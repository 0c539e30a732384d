"""Workloads: recipes of real programs, what it takes to have them recorded, and generators beside their recordings."""
