"""Designs of papers 1, 3, 4 and 5 on one machine: TLBs, page tables and kernels, each with each."""
