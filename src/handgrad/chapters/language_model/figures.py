"""The figures of chapter 17. Each function draws what it is given; the notebook computes every number."""

from handgrad.course.figures import COLOUR, LABEL, WIDTH, box, subplots

SHOWN = {" ": "␣", "\n": "↵"}


def shown(text):
    """The characters of a text, spaces and line breaks as signs."""
    return [SHOWN.get(character, character) for character in text]


def shift(text):
    """Two rows of cells: what each place reads, and what it is asked for."""
    rows = {"reads": shown(text[:-1]), "is asked for": shown(text[1:])}
    fig, ax = subplots(size=(WIDTH, 1.5))
    for y, (title, characters) in enumerate(rows.items()):
        ax.text(-0.3, -y, title, ha="right", va="center")
        for x, character in enumerate(characters):
            look = dict(high=0.72, family="monospace", fontsize=LABEL)
            box(ax, x + 0.5, -y, character, "orange" if y else "sky", **look)
            if y == 1:
                ax.text(x + 0.5, -1.75, str(x), ha="center", va="center", color=COLOUR["grey"], fontsize=9)
    ax.text(-0.3, -1.75, "place", ha="right", va="center", color=COLOUR["grey"], fontsize=9)
    ax.set(xlim=(-4.2, len(text) - 1), ylim=(-2.1, 0.5))
    ax.set_axis_off()
    return fig


def samples(after):
    """What a model writes after some updates, and its bits. after: {update: {bits, sample}}"""
    fig, ax = subplots(size=(WIDTH, 0.9 * len(after)))
    for row, (update, of) in enumerate(after.items()):
        bits, text = of["examined, stride 128"], "".join(shown(of["sample"]))
        lines = [text[at : at + 62] for at in range(0, len(text), 62)]
        ax.text(0, -row, f"{bits:.2f} bits", va="center", color=COLOUR["vermilion"], fontsize=LABEL)
        ax.text(0, -row - 0.32, f"{int(update):,} updates", va="center", color=COLOUR["grey"], fontsize=9)
        ax.text(1, -row, "\n".join(lines), va="center", family="monospace", fontsize=8.5)
    ax.set(xlim=(0, 6), ylim=(0.5 - len(after), 0.5))
    ax.set_axis_off()
    return fig
