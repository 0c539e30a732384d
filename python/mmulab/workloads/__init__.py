"""Workloads: recipes of real programs, and what it takes to have them recorded."""
