"""What each chapter needs, drawn as a map whose boxes are links.

Where a box stands is said in book/chapters.yml. An arrow leads from a chapter to one that needs it; those
that others imply are left out. progress.js lights up all that a chapter needs when the pointer or the Tab key
reaches it.
"""

from html import escape
from textwrap import wrap

import networkx as nx

WIDTH, HEIGHT = 126, 60  # of a box
COLUMN, ROW = 150, 100  # from one box to the next
PORTS = 22  # between the arrows of a box
MARGIN = 3


def graph(chapters):
    """An edge from each chapter to those that need it, without edges that others imply.

    Raises ValueError if chapters need each other in a circle.
    """
    every = nx.DiGraph([(need, chapter.number) for chapter in chapters for need in chapter.needs])
    every.add_nodes_from(chapter.number for chapter in chapters)
    if not nx.is_directed_acyclic_graph(every):
        raise ValueError(f"needs: expected no circle of chapters, got {nx.find_cycle(every)}")
    return nx.transitive_reduction(every)


def centres(chapters):
    """{number: the middle (x, y) of its box}."""
    return {
        c.number: (MARGIN + WIDTH / 2 + c.at[1] * COLUMN, MARGIN + HEIGHT / 2 + c.at[0] * ROW)
        for c in chapters
    }


def ports(number, others, middle):
    """{other end: x at which its arrow meets this box}, side by side in the order in which they come."""
    ordered = sorted(others, key=lambda other: middle[other][0])
    first = middle[number][0] - PORTS * (len(ordered) - 1) / 2
    return {other: first + PORTS * i for i, other in enumerate(ordered)}


def is_free(x, top, bottom, middle):
    """Whether a vertical line meets no box."""
    return not any(
        abs(x - box_x) < WIDTH / 2 + MARGIN and top < box_y + HEIGHT / 2 and box_y - HEIGHT / 2 < bottom
        for box_x, box_y in middle.values()
    )


def arrow(start, end, edges, middle):
    """The path from one box to another: a straight line, with a bend between two rows at one end.

    Raises ValueError if a box stands in the way of both.
    """
    x = ports(start, edges.successors(start), middle)[end]
    to_x = ports(end, edges.predecessors(end), middle)[start]
    y, to_y = middle[start][1] + HEIGHT / 2, middle[end][1] - HEIGHT / 2 - 6
    gap = ROW - HEIGHT - 6
    if is_free(x, y + 1, to_y - gap, middle):
        bend_y, straight = to_y - gap, f"L{x:g} {to_y - gap:g}"
        bend = f"C{x:g} {bend_y + gap / 2:g} {to_x:g} {to_y - gap / 2:g} {to_x:g} {to_y:g}"
        path = straight + bend
    elif is_free(to_x, y + gap, to_y, middle):
        bend = f"C{x:g} {y + gap / 2:g} {to_x:g} {y + gap / 2:g} {to_x:g} {y + gap:g}"
        path = f"{bend}L{to_x:g} {to_y:g}"
    else:
        raise ValueError(
            f"at: expected room for the arrow from chapter {start} to {end}; a box is in its way"
        )
    return f'<path d="M{x:g} {y:g}{path}" data-from="{start}" data-to="{end}" marker-end="url(#arrow)"/>'


def box(chapter, centre, all_needed, address):
    """One chapter: a link with its number, title and minutes."""
    x, y = centre[0] - WIDTH / 2, centre[1] - HEIGHT / 2
    needs = " and ".join(map(str, chapter.needs)) or "nothing"
    spoken = f"Chapter {chapter.number}: {chapter.title}, {chapter.minutes} minutes, needs {needs}"
    lines = wrap(f"{chapter.number}. {chapter.title}", 18)
    texts = "".join(
        f'<text x="{centre[0]:g}" y="{y + 18 + 15 * i:g}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    facts = f'{chapter.minutes} min<tspan class="done"></tspan>'
    return (
        f'<a href="{escape(address)}" aria-label="{escape(spoken)}" data-number="{chapter.number}" '
        f'data-page="{chapter.page}" data-minutes="{chapter.minutes}" '
        f'data-needs="{" ".join(map(str, all_needed))}">'
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>{texts}'
        f'<text class="facts" x="{centre[0]:g}" y="{y + HEIGHT - 8:g}">{facts}</text></a>'
    )


def picture(chapters, addresses):
    """The map as SVG. addresses: {page: where its link leads}. Raises what `graph` and `arrow` raise."""
    edges, middle = graph(chapters), centres(chapters)
    width, height = (max(ends) + MARGIN for ends in zip(*middle.values(), strict=True))
    arrows = "".join(arrow(start, end, edges, middle) for start, end in edges.edges)
    boxes = "".join(
        box(c, middle[c.number], sorted(nx.ancestors(edges, c.number)), addresses[c.page]) for c in chapters
    )
    head = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="3" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0L8 4L0 8Z"/></marker></defs>'
    )
    return (
        f'<svg viewBox="0 0 {width + WIDTH / 2:g} {height + HEIGHT / 2:g}" role="group" '
        'aria-label="What each chapter needs: an arrow leads from a chapter to one that needs it">'
        f'{head}<g class="arrows" aria-hidden="true">{arrows}</g>{boxes}</svg>'
    )


def page(chapters):
    """The map, and a line in which progress.js tells what a chapter needs, as HTML."""
    addresses = {chapter.page: f"../{chapter.page}.html" for chapter in chapters}
    return (
        f'<div class="scrolls chapter-graph">{picture(chapters, addresses)}</div>\n'
        '<p class="chapter-graph-told" role="status"></p>\n'
    )
