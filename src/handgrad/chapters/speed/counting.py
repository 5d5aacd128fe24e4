"""Where a step of chapter 20 was busy."""

from pathlib import Path

STAGES = {
    "linear layers": "linear feed_forward",
    "attention": "attention softmax multi_head heads",
    "activation": "activations",
    "norms": "normalization",
    "head and loss": "embedding cross_entropy",
    "the rest": "",
}
"""Modules of `ops` by stage; all others are the rest."""


def by_stage(functions):
    """Seconds of each stage: functions {(file, line, name): (.., .., own seconds, ..)}, as in pstats."""
    stage_of = {module: stage for stage, modules in STAGES.items() for module in modules.split()}
    seconds = dict.fromkeys(STAGES, 0.0)
    for (file, _, _), (_, _, own, _, _) in functions.items():
        seconds[stage_of.get(Path(file).stem, "the rest")] += own
    return seconds
