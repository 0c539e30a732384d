"""Experiments of paper 5 (Ainsworth and Jones, Compendia): thresholds, footprints, and what merging is worth."""
