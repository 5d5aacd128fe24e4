"""Of IPython what the chapters use: how code and Markdown are shown."""


def get_ipython():
    return None
