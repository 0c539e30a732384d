"""Paper 2: what translating instructions costs, and superpages, padding and shared page tables for code."""
