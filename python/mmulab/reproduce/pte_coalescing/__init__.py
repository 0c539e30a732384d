"""Experiments of paper 1 (Solomon, Zhou and Cox): its tables of counters, and groups of 16 and 32 KB."""
