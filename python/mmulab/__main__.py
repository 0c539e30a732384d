"""`python -m mmulab`."""

from mmulab.cli import main

main()
