"""How all tests run."""

import gc

gc.set_threshold(20_000, 20, 100)  # a sweep goes through all of torch and SymPy: one in thirty is enough
