"""Experiments that time programs on the computer that mmulab runs on, and hold models against the times."""
