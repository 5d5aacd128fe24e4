"""A calculator of parameters: a preset and changes, as one types them, answered part by part."""

from ast import literal_eval

from handgrad import accounting
from handgrad.config import bert_base, gpt2_small, llama_like, vaswani_base

PRESETS = {f.__name__: f for f in (vaswani_base, gpt2_small, bert_base, llama_like)}
BOXES = {
    "own source table": dict(shared=False),
    "own head matrix": dict(tied=False),
    "attention biases": dict(attention_biases=True),
    "feed-forward biases": dict(feed_forward_biases=True),
    "final norms": dict(final_norm=True),
}
"""What can be switched on, beginning from a base Transformer with one table, no biases and no final norm."""
SETTINGS = {"63.0 M": "00010", "82.0 M": "01010", "100.9 M": "11010", "all": "11111"}


def read(text):
    """The Config of a text such as "vaswani_base tied=False V=50000". ValueError if it says none."""
    name, *changes = text.replace(",", " ").split() or [""]
    if name not in PRESETS:
        raise ValueError(f"expected to begin with one of {', '.join(PRESETS)}, got {name!r}")
    values = {}
    for change in changes:
        field, is_one, value = change.partition("=")
        if not is_one:
            raise ValueError(f"expected changes such as D=1024 or tied=False, got {change!r}")
        try:
            values[field] = literal_eval(value)
        except (ValueError, SyntaxError):
            values[field] = value
    try:
        return PRESETS[name](**values)
    except TypeError as error:
        raise ValueError(f"expected fields of Config, got {changes}") from error


def answer(text):
    """Parameters by part, their sum by formula and by counting, and what a token costs."""
    config = read(text)
    parts = {name: number for name, number in accounting.parameters(config).items() if number}
    by_formula, by_count = accounting.total(config), accounting.count(config)
    lines = [f"{name}: {number:,}" for name, number in parts.items()]
    lines += [f"by formula: {by_formula:,}", f"by counting: {by_count:,}"]
    return "\n".join(lines)


def switched(on):
    """The base Transformer with the boxes that are on."""
    bare = dict(attention_biases=False, feed_forward_biases=False)
    for changes, is_on in zip(BOXES.values(), on, strict=True):
        bare |= changes if is_on else {}
    return vaswani_base(**bare)
