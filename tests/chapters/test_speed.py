"""The exercises of chapter 20: derived again; and its records."""

import ast
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sympy
from judging import solution
from sympy import cbrt

from benchmarks import ideas
from handgrad.chapters.speed import counting, figures, records, trials
from handgrad.course import judge
from handgrad.ops import attention, attention_backward, flash_attention, flash_attention_backward

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"

# The answers, derived a second time -------------------------------------------------------------------------


def state_of(s, v):
    """m, z, u of the scores s (B, T, S) and the values v (B, S, E), all at once."""
    m = s.max(axis=-1)
    e = np.exp(s - m[..., None])
    return m, e.sum(axis=-1), e @ v


def test_two_halves_are_the_whole():
    rng = np.random.default_rng(0)
    s, v = rng.normal(0, 3, (2, 4, 9)), rng.normal(size=(2, 9, 5))
    for cut in (1, 4, 8):
        halves = state_of(s[..., :cut], v[:, :cut]), state_of(s[..., cut:], v[:, cut:])
        for mine, whole in zip(solution("merge_parts")(*halves[0], *halves[1]), state_of(s, v)):
            np.testing.assert_allclose(mine, whole, rtol=1e-12)


def test_tiles_with_a_used_log_sum_add_up_to_the_derivative():
    """Against central differences of ⟨dy, y⟩ + ⟨dl, l⟩, the keys in tiles of 2, 1 and 3."""
    rng = np.random.default_rng(1)
    q, k, v, dy = (rng.normal(size=(2, n, 3)) for n in (4, 6, 6, 4))
    dl = rng.normal(size=(2, 4))

    def outputs(q, k, v):
        m, z, u = state_of(q @ k.mT / np.sqrt(3), v)
        return u / z[..., None], m + np.log(z)

    y, log_sum = outputs(q, k, v)
    parts = [
        solution("tile_gradients")(dy, dl, q, k[:, j], v[:, j], y, log_sum)
        for j in (slice(0, 2), slice(2, 3), slice(3, 6))
    ]
    dq = sum(part[0] for part in parts)
    dk, dv = (np.concatenate([part[n] for part in parts], axis=1) for n in (1, 2))
    for place, grad in enumerate((dq, dk, dv)):
        direction = rng.normal(size=grad.shape)
        values = []
        for h in (1e-5, -1e-5):
            moved = [x + h * direction if n == place else x for n, x in enumerate((q, k, v))]
            y_moved, l_moved = outputs(*moved)
            values.append((dy * y_moved).sum() + (dl * l_moved).sum())
        assert np.isclose((values[0] - values[1]) / 2e-5, (grad * direction).sum(), rtol=1e-7)


def test_the_memory_of_two_levels():
    N, rho, c, d = sympy.symbols("N rho c d", positive=True)
    held = N / c + c / d + rho * d
    best = {c: cbrt(N**2 / rho), d: cbrt(N / rho**2)}
    assert all(sympy.simplify(held.diff(x).subs(best)) == 0 for x in (c, d))
    assert sympy.simplify(held.subs(best) - solution("two_level_memory")(N, rho)) == 0


def test_the_gate_and_the_clip():
    rng = np.random.default_rng(2)
    dy, x, h = rng.normal(size=(3, 2, 3, 4))

    def y(x, h):
        return x + x / (1 + np.exp(-h))

    dx, dh = solution("gate_backward")(dy, x, 1 / (1 + np.exp(-h)))
    slopes = [(y(x + 1e-6, h) - y(x - 1e-6, h)) / 2e-6, (y(x, h + 1e-6) - y(x, h - 1e-6)) / 2e-6]
    np.testing.assert_allclose([dx, dh], [dy * slope for slope in slopes], rtol=1e-6, atol=1e-8)
    rows = rng.normal(size=(10, 2, 3))  # gradients of ten targets; the mean of all is that of one process
    for most in (0.1, 100.0):
        g = solution("joined_and_clipped")(rows[:3].mean(0), rows[3:].mean(0), 3, 7, most)
        whole = rows.mean(axis=0)
        norm = np.linalg.norm(whole)
        np.testing.assert_allclose(g, whole if norm <= most else whole * most / norm)


# What the chapter counts, and what it reads -----------------------------------------------------------------


def test_the_products_of_attention_are_counted():
    sizes = dict(T=6, S=4, K=3, E=5)
    plain = counting.count(attention, attention_backward, **sizes)
    tiles = counting.count(flash_attention, flash_attention_backward, **sizes, block=2)
    assert (plain["forward"], plain["backward"]) == (24 * (3 + 5), 24 * (2 * 3 + 2 * 5))
    assert (tiles["forward"], tiles["backward"]) == (24 * (3 + 5), 24 * (3 * 3 + 2 * 5))
    assert tiles["loaded"] == 3 * 4 * (3 + 5)


def test_statements_are_counted_without_docstrings():
    assert counting.statements(trials) > counting.statements(figures) / 20
    assert counting.is_text(ast.parse("'text'").body[0])


def test_the_prices_of_calls_that_have_them_are_found():
    """Rows made from three prices give these prices back."""
    rng = np.random.default_rng(0)
    rows = [dict(zip(records.COSTS, rng.integers(1, 10**5, 3).tolist())) for _ in range(9)]
    prices = np.array([1e-6, 1e-10, 1e-11])
    rows = [row | {"seconds": float(prices @ list(row.values()))} for row in rows]
    np.testing.assert_allclose(records.prices(rows), prices, rtol=1e-6)


def test_the_record_is_whole():
    record = json.loads((RESULTS / "ideas.json").read_text(encoding="utf-8"))
    assert [row["idea"] for row in record["ideas"]["stair"]] == ["readable", "in place", *ideas.IDEAS]
    assert list(record["ideas"]["alone"]) == [*ideas.ALONE, "two workers"]
    assert all(len(record["chain"][direction]) == 6 for direction in ("forward", "backward"))
    rates = records.rates(record["calls"])
    assert all(rate > 0 for rate in rates.values())
    assert set(records.points(record)) >= {"element-wise", "product", "attention, tiles"}
    figures.waterfall(record["ideas"]["stair"], record["ideas"]["alone"])
    figures.roofline(records.points(record), rates)


def test_the_record_bears_out_what_the_chapter_says_of_it():
    """Else other words are wanted in fit-reading, ideas, moved-reading, chain-reading and speed-reading."""
    record = records.read(RESULTS / "ideas.json")
    stair, alone = record["ideas"]["stair"], record["ideas"]["alone"]
    drops = {row["idea"]: up["median"] - row["median"] for up, row in pairwise(stair)}
    assert max(drops, key=drops.get) == "in place"
    *_, second, first = sorted(alone, key=lambda idea: alone[idea]["median"])
    assert (first, second) == ("two workers", "loops") and alone[first]["low"] > alone[second]["high"] > 1
    assert 1.05 < alone["workspace"]["low"] < alone["workspace"]["high"] < 1.15
    assert alone["recomputation"]["low"] < 1 < alone["recomputation"]["high"]
    chain = {way["way"]: way["seconds"] for way in record["chain"]["forward"]}
    eager = chain["PyTorch, eager"]
    assert 0.7 < eager / chain["passes"] < 0.8 and chain["PyTorch, compiled"] > 0.95 * eager
    assert chain["loop"] < chain["PyTorch, our lines"] < chain["blocks"] / 2
    took = {(row["T"], row["way"]): row for row in record["tiles"]}
    assert all(
        took[T, "tiles"]["seconds"] > row["seconds"] for (T, way), row in took.items() if way == "plain"
    )
    assert took[4096, "plain"]["fresh"] == 9 * 4 * 4096**2 and took[4096, "tiles"]["fresh"] == 0
    each = records.prices(record["calls"])
    book = json.loads((RESULTS.parents[1] / "notebooks" / "20_speed.ipynb").read_text(encoding="utf-8"))
    (reading,) = ("".join(cell["source"]) for cell in book["cells"] if cell["id"] == "fit-reading")
    assert "A call costs about as much as seventy thousand bytes." in reading
    assert each[0] / each[1] == pytest.approx(70_000, rel=0.05)
    for way in ("plain", "tiles"):
        row = took[4096, way]
        assert np.dot([row[cost] for cost in records.COSTS], each) < 0.7 * row["seconds"]
    touch, plain = record["touch"], took[4096, "plain"]
    more = plain["fresh"] / touch["bytes"] * (touch["fresh"] - touch["at hand"])
    assert more / np.dot([plain[cost] for cost in records.COSTS], each) == pytest.approx(0.4, abs=0.05)
    growth = records.read(RESULTS / "speed.json")["growth"]["D"]
    ours, eager = (np.array(growth["times"][name]) for name in ("by hand", "PyTorch, eager"))
    assert growth["values"][:3] == [64, 128, 256]
    assert ours[0] > eager[0] and abs(ours[1] / eager[1] - 1) < 0.05 and (ours[2:] < eager[2:]).all()


def test_an_interval_around_one_decides_nothing():
    alone = {"a": {"low": 1.1, "high": 1.2}, "b": {"low": 0.9, "high": 1.1}, "c": {"low": 0.8, "high": 0.9}}
    ends = [line.split(": ")[1] for line in records.verdicts(alone)]
    assert ends == ["a", "b", "c"]
    assert [line.split(": ")[1] for line in records.verdicts({"b": alone["b"]})] == ["none", "b", "none"]


def test_first_touch_is_priced_where_it_is_on_record():
    row = {"T": 8, "way": "plain", "calls": 1, "bytes": 10, "operations": 5, "fresh": 100, "seconds": 0.5}
    (line,) = records.price_lines({"tiles": [row]}, [0.1, 0.01, 0.02], 8)
    assert line.endswith("at the three prices 300 ms; measured 500 ms")
    touch = {"bytes": 50, "fresh": 0.11, "at hand": 0.06}
    (line,) = records.price_lines({"tiles": [row], "touch": touch}, [0.1, 0.01, 0.02], 8)
    assert line.endswith("at the three prices 300 ms, with first touch 400 ms; measured 500 ms")


def test_the_chain_is_drawn_with_its_calls_and_without_what_is_absent():
    record = json.loads((RESULTS / "ideas.json").read_text(encoding="utf-8"))
    chain = {name: [dict(row) for row in record["chain"][name]] for name in ("forward", "backward")}
    chain["forward"][-1]["seconds"] = None
    (ax,) = figures.chain(chain).axes
    assert len(ax.patches) == 2 * len(chain["forward"]) - 1
    words = [text.get_text() for text in ax.texts]
    assert "1 call, 13 MB" in words and "9 calls, 88 MB" in words
    assert [len(ax.texts) for ax in figures.sweeps(9).axes] == [9, 36, 1]  # an arrow each


def test_the_rate_of_the_loop_is_that_of_its_own_bytes():
    rows = [{"way": "passes", "bytes": 9e9, "seconds": 1}, {"way": "loop", "bytes": 3e9, "seconds": 0.5}]
    calls = [{"bytes": size, "operations": 1, "seconds": 1e-3} for size in (1e6, 2e7 + 1)]
    lines = list(records.chain_lines({"chain": {"forward": rows, "backward": rows}, "calls": calls}))
    assert lines[:2] == ["the loop, forward: 6 GB/s", "the loop, backward: 6 GB/s"]
    assert lines[2] == "best of a call: 20 GB/s from memory, 1 from cache"


def test_one_thread_beside_one_thread():
    row = {"ratio": 1.5, "ratio_low": 1.25, "ratio_high": 2.0}
    part = {"alone": {"by hand": row}, "products": {"numpy": 3.0, "torch": 2.0}}
    (line,) = records.alone_lines({"sizes": {"S": part}})
    assert line == "S one thread each 1.50 (1.25 to 2.00); the faster products are those of torch"


def test_the_ideas_compute_the_same():
    size = ideas.SIZE._replace(D=16, N=1, H=2, T=40, B=2, V=11, F=32)
    found = ideas.steps(size)
    assert len(found) == 1 + 7 + 4
    ideas.check(found)
    ideas.check(found)  # again, in memory that has been used


def test_a_gradient_that_is_clipped_to_one_and_not_to_the_limit_is_refused():
    def to_one(g_1, g_2, m_1, m_2, most):
        g = (m_1 * g_1 + m_2 * g_2) / (m_1 + m_2)
        norm = np.sqrt((g * g).sum())
        return g / norm if norm > most else g

    verdict = judge.joined_and_clipped(to_one)
    assert verdict.status == "wrong" and "`g / norm * most` in place of `g / norm`" in verdict.where


def test_an_answer_that_raises_is_told_so_and_nothing_else():
    def one_number_for_all(m_1, z_1, u_1, m_2, z_2, u_2):
        m = np.maximum(m_1, m_2)
        a, b = np.exp(m_1 - m), np.exp(m_2 - m)
        return m, a * z_1 + b * z_2, a * u_1 + b * u_2

    def asks_an_array(m_1, z_1, u_1, m_2, z_2, u_2):
        return (m_1, z_1, u_1) if m_1 > m_2 else (m_2, z_2, u_2)

    for answer in (one_number_for_all, asks_an_array):
        verdict = judge.merge_parts(answer)
        assert verdict.status == "wrong" and "It raises ValueError" in verdict.diagnosis


def test_what_attention_moves_is_counted_in_full():
    """By hand, in arrays of T × S float32: 25 are read or written in the plain way, 30 and masks in tiles."""
    arrays = np.random.default_rng(0).standard_normal((4, 512, 2), dtype=np.float32)
    table = 4 * 512 * 512
    assert 25 < ideas.counted("plain", *arrays)["bytes"] / table < 25.5
    assert 30.25 < ideas.counted("tiles", *arrays)["bytes"] / table < 32
    record = json.loads((RESULTS / "ideas.json").read_text(encoding="utf-8"))
    for row in record["tiles"][:4]:
        arrays = np.zeros((4, row["T"], 64), np.float32)
        found = ideas.counted(row["way"], *arrays)
        assert found == {name: row[name] for name in found}
