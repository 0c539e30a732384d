"""What experiments of several papers share: how they are declared, runs that are kept, bounds of a time, pages."""
