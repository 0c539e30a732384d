"""Experiments of the papers, run again on descriptions of their machines: a folder per paper, and what they share."""
