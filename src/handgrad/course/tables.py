"""Markdown tables."""


def markdown(head, rows, numbers=True):
    """A table of texts, its first column at the left; the others at the right if they hold numbers."""
    align = [":--"] + ["--:" if numbers else ":--"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, align, *rows])
