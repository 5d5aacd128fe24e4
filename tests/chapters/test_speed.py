"""The exercises of chapter 20: derived again; and its records."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import sympy
import torch
from judging import solution
from sympy import cbrt

from benchmarks import ideas
from handgrad.chapters.speed import figures
from handgrad.course import judge

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def read(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


# The answers, derived a second time -------------------------------------------------------------------------


def test_the_memory_of_two_levels():
    N, rho, c, d = sympy.symbols("N rho c d", positive=True)
    held = N / c + c / d + rho * d
    best = {c: cbrt(N**2 / rho), d: cbrt(N / rho**2)}
    assert all(sympy.simplify(held.diff(x).subs(best)) == 0 for x in (c, d))
    assert sympy.simplify(held.subs(best) - solution("two_level_memory")(N, rho)) == 0


def test_the_gate_and_the_clip():
    rng = np.random.default_rng(2)
    dy, x, h = torch.tensor(rng.normal(size=(3, 2, 3, 4)), requires_grad=True)
    wanted = torch.autograd.grad((dy * (x + x * torch.sigmoid(h))).sum(), (x, h))
    dx, dh = solution("gate_backward")(*(part.detach().numpy() for part in (dy, x, torch.sigmoid(h))))
    np.testing.assert_allclose([dx, dh], wanted, rtol=1e-12)
    rows = rng.normal(size=(10, 2, 3))  # gradients of ten targets; the mean of all is that of one process
    for most in (0.1, 100.0):
        g = solution("joined_and_clipped")(rows[:3].mean(0), rows[3:].mean(0), 3, 7, most)
        whole = rows.mean(axis=0)
        norm = np.linalg.norm(whole)
        np.testing.assert_allclose(g, whole if norm <= most else whole * most / norm)


# What the chapter counts, and what it reads -----------------------------------------------------------------


def test_the_record_bears_out_what_the_chapter_says_of_it():
    """Else other words are wanted in the chapter, or in open_questions.md."""
    record = read("ideas.json")
    stair = record["ideas"]["stair"]
    *_, one_core, two_cores = (row["median"] for row in stair)
    assert [row["idea"] for row in stair] == ["readable", "in place", *ideas.IDEAS]
    assert round(one_core, 2) == 0.46 and round(two_cores, 2) == 0.26
    drops = {row["idea"]: up["median"] - row["median"] for up, row in pairwise(stair)}
    assert drops.pop("two workers") > drops["loops"]
    assert sorted(drops, key=drops.get)[-2:] == ["loops", "in place"]
    assert drops["blocks"] < 0.01 and 0 < drops["recomputation"] < 0.01
    limit = {name: row["median"] for name, row in record["ideas"]["over the limit"].items()}
    assert [round(limit["readable"], 1), round(limit["with 5"], 2)] == [2.4, 1.15]
    ways = {name: {row["way"]: row for row in record["chain"][name]} for name in ("forward", "backward")}
    for (name, rows), fewer in zip(ways.items(), (7, 10), strict=True):
        assert round(rows["passes"]["bytes"] / rows["loop"]["bytes"]) == fewer, name
        taken = {way: row["seconds"] for way, row in rows.items()}
        assert 0.23 < taken["loop"] / taken["passes"] < 0.27, name
        assert taken["loop"] < taken["blocks"] < taken["passes"], name
        assert taken["loop"] < taken["PyTorch, our lines"] < 1.2 * taken["loop"], name
    passes, blocks = (sum(rows[way]["seconds"] for rows in ways.values()) for way in ("passes", "blocks"))
    assert 0.3 < 1 - blocks / passes < 0.4
    eager, compiled = (ways["forward"][way]["seconds"] for way in ("PyTorch, eager", "PyTorch, compiled"))
    assert compiled > 0.95 * eager
    eager, compiled = (ways["backward"][way]["seconds"] for way in ("PyTorch, eager", "PyTorch, compiled"))
    assert ways["backward"]["loop"]["seconds"] < compiled < 0.7 * eager
    assert record["machine"]["processor"].startswith("Intel")
    assert ideas.BLOCK // record["chain"]["shape"][1] == 256
    sizes = read("speed.json")["sizes"]
    assert [round(part["alone"]["by hand"]["ratio"], 2) for part in sizes.values()] == [1.42, 1.22, 1.16]
    for part, milliseconds in zip(sizes.values(), ([186, 79], [796, 731], [788, 740]), strict=True):
        readable = [row for row in part["settings"] if row["variant"] == "NumPy, readable"]
        tried = {row["setting"]: 1e3 * row["median"] for row in readable}
        assert [round(tried["1 × 1"]), round(tried["1 × 1, kept"])] == milliseconds
        names = "by hand, 2 workers", "by hand", "PyTorch, eager", "PyTorch, compiled"
        two, one, eager, compiled = (part["variants"][name] for name in names)
        assert compiled["ratio_low"] < 1 < compiled["ratio_high"]
        assert two["ratio_low"] > 1 and two["memory"] < eager["memory"]
        assert one["ratio_low"] < 1 < one["ratio_high"]
        assert part["alone"]["by hand"]["ratio_low"] > 1


def test_the_chain_is_drawn_with_its_calls_and_without_what_is_absent():
    record = read("ideas.json")
    chain = {name: [dict(row) for row in record["chain"][name]] for name in ("forward", "backward")}
    chain["forward"][-1]["seconds"] = None
    (ax,) = figures.chain(chain).axes
    assert len(ax.patches) == 2 * len(chain["forward"]) - 1
    words = [text.get_text() for text in ax.texts]
    assert "1 call, 13 MB" in words and "9 calls, 88 MB" in words
    assert [len(ax.texts) for ax in figures.sweeps(9).axes] == [9, 36, 1]  # an arrow each


def test_the_costs_are_named_where_their_lines_stand_and_the_dots_are_measured():
    lengths, seconds = np.array([1, 10, 100]), np.array([2e-6, 2e-7, 5e-8])
    alone = {"calls": 2e-6 / lengths, "bytes": 4e-8, "operations": 1e-9}
    (ax,) = figures.costs(lengths, seconds, alone).axes
    assert {text.get_text(): text.xy[0] for text in ax.texts} == {"calls": 1, "bytes": 100, "operations": 100}
    *lines, dots = (line.get_ydata() for line in ax.lines)
    for line, each in zip(lines, alone.values(), strict=True):
        np.testing.assert_allclose(line, np.broadcast_to(1e9 * each, 3))
    np.testing.assert_allclose(dots, [2000, 200, 50])
    assert ax.get_ylim()[0] < 1 < 2000 < ax.get_ylim()[1]


def test_the_ideas_compute_the_same():
    size = ideas.SIZE._replace(D=16, N=1, H=2, T=40, B=2, V=11, F=32)
    found = ideas.steps(size)
    assert len(found) == 1 + 7
    ideas.check(found)
    ideas.check(found)  # again, in memory that has been used


def test_a_gradient_that_is_clipped_to_one_and_not_to_the_limit_is_refused():
    def to_one(g_1, g_2, m_1, m_2, most):
        g = (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2)
        norm = np.sqrt((g * g).sum())
        return g / norm if norm > most else g

    verdict = judge.joined_and_clipped(to_one)
    assert verdict.status == "wrong" and "`g / norm * most` in place of `g / norm`" in verdict.where
