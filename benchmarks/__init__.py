"""How fast a training step is, and how much memory it takes: see `python -m benchmarks --help`.

variants    the sizes, the steps that are compared, and the matrix products that bound them
worker      what happens inside the process of one variant: preparing, one step, its memory
report      medians, ratios and growth from the times; the table in Markdown
__main__    asks the workers in turn, and writes results/NAME.json and results/NAME.md
"""
