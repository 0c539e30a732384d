"""Experiments of paper 3 (Psomadakis and others, Elastic Translations): how long page faults take."""
