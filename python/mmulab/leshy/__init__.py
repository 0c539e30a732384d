"""Leshy: page sizes for the parts of a program's memory, selected from a profile of its TLB misses (paper 3)."""
