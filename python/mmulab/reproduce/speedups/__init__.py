"""Speed-ups by page size that others timed on hardware: a rerun of paper 3's artifact, and paper 1's tables."""
