"""Of optree what this package uses, in plain Python, for a browser in which no compiled module can be loaded.

As there: a dictionary is walked in the order of its keys, and None is a node without leaves.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Structure(NamedTuple):
    """A tree whose leaves are gone."""

    tree: object


def children(tree):
    """[(key, child)] of a node; None of a leaf."""
    if isinstance(tree, Mapping):
        return [(key, tree[key]) for key in sorted(tree)]
    if isinstance(tree, tuple | list):
        return list(enumerate(tree))
    return [] if tree is None else None


def again(tree, made):
    """A node of the kind of `tree` with these children."""
    if isinstance(tree, Mapping):
        by_key = dict(zip(sorted(tree), made, strict=True))
        return {key: by_key[key] for key in tree}
    if hasattr(tree, "_fields"):
        return type(tree)(*made)
    return None if tree is None else type(tree)(made)


def tree_map_with_path(function, tree, *rest, is_leaf=None, path=()):
    inner = None if is_leaf and is_leaf(tree) else children(tree)
    if inner is None:
        return function(path, tree, *rest)
    made = [
        tree_map_with_path(function, child, *(r[key] for r in rest), is_leaf=is_leaf, path=(*path, key))
        for key, child in inner
    ]
    return again(tree, made)


def tree_map(function, tree, *rest, is_leaf=None):
    return tree_map_with_path(lambda _, *leaves: function(*leaves), tree, *rest, is_leaf=is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    paths, leaves = [], []

    def note(path, leaf):
        paths.append(path)
        leaves.append(leaf)

    tree_map_with_path(note, tree, is_leaf=is_leaf)
    return paths, leaves, Structure(tree_map(lambda _: 0, tree, is_leaf=is_leaf))


def tree_flatten(tree, is_leaf=None):
    return tree_flatten_with_path(tree, is_leaf)[1:]


def tree_leaves(tree, is_leaf=None):
    return tree_flatten_with_path(tree, is_leaf)[1]


def tree_paths(tree, is_leaf=None):
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    return tree_flatten_with_path(tree, is_leaf)[2]


def tree_unflatten(structure, leaves):
    left = iter(leaves)
    return tree_map(lambda _: next(left), structure.tree)
