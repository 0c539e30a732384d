"""Paper 3's profiler Leshy: how near its heuristics come to the best selection of page sizes."""
