"""A save was asked for of an attempt that had no output: the graph around what a handler answered for was to be saved
while its task ran again. What is to be saved is asked for when it is done.

Played as the simulation found it, and made small.
"""

from tests.tools.simulation.notation import graph
from tests.tools.simulation.script import play_script


def test_seed_810089639():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; g kept a", returning={"a": [graph("a pure; b loose a")]}),
        """
        finish a holding new new
        lose a.2
        expire a/b at 1
        """,
    )


def test_seed_810169540():
    """Save(node='b', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("b pure; c kept b", returning={"b": [graph("c pure", returning={"c": [graph("c pure; d pure c")]})]}),
        """
        finish b holding new
        finish b/c
        lose b.1 b/c.0
        expire b~2/d at 1
        """,
    )


def test_seed_810188170():
    """Save(node='d', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph(
            "d pure; h kept d",
            returning={"d": [graph("b loose; e loose b", returning={"b": [graph("a pure; b pure a")]})]},
        ),
        """
        finish d holding new
        finish d/b
        lose d.1
        answer d/b/a
        """,
    )


def test_seed_810258338():
    """Save(node='b', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("b pure; c kept b", returning={"b": [graph("b loose; c loose b")]}),
        """
        finish b holding new new
        lose b.2
        expire b/c at 1
        """,
    )


def test_seed_810333364():
    """Save(node='d', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("d pure; e kept d", returning={"d": [graph("a pure,asks")]}),
        """
        finish d holding new new
        lose d.2
        expire d/a at 1
        """,
    )


def test_seed_810375342():
    """Save(node='g', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("g pure; h kept g", returning={"g": [graph("b loose; c pure b")]}),
        """
        finish g holding new
        lose g.1
        expire g/b at 1
        """,
    )


def test_seed_810377741():
    """Save(node='b', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("b pure; f kept b", returning={"b": [graph("a pure; d pure a")]}),
        """
        finish b holding new new
        lose b.2
        expire b/a at 1
        """,
    )


def test_seed_810420357():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; d kept a", returning={"a": [graph("b pure; d pure b")]}),
        """
        finish a holding new
        lose a.1
        expire a/b at 1
        """,
    )


def test_seed_810447552():
    """Save(node='c', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("c pure; h kept c", returning={"c": [graph("b pure,parts=2; c pure b.1")]}),
        """
        finish c holding new
        lose c.1
        expire c/b at 1
        """,
    )


def test_seed_870138914():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; c kept a", returning={"a": [graph("c pure; d loose c")]}),
        """
        finish a holding new
        lose a.1
        expire a/c at 1
        """,
    )


def test_seed_870224338():
    """Save(node='c', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("c pure; i kept c", returning={"c": [graph("a pure; c loose a")]}),
        """
        finish c holding new
        lose c.1
        expire c/a at 1
        """,
    )


def test_seed_870243133():
    """Save(node='f', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("f pure; h kept f", returning={"f": [graph("b loose,asks")]}),
        """
        finish f holding new
        lose f.1
        expire f/b at 1
        """,
    )


def test_seed_870296247():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; b kept a", returning={"a": [graph("a pure; d pure a")]}),
        """
        finish a holding new
        lose a.1
        expire a/a at 1
        """,
    )


def test_seed_870311313():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; e kept a", returning={"a": [graph("a loose; b loose a")]}),
        """
        finish a holding new
        lose a.1
        expire a/a at 1
        """,
    )


def test_seed_870355905():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; e kept a", returning={"a": [graph("a loose")]}),
        """
        finish a holding new
        lose a.1 running a/a
        expire a/a at 1
        """,
    )


def test_seed_870356384():
    """Save(node='b', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("b pure; g kept b", returning={"b": [graph("a loose; b loose a")]}),
        """
        finish b holding new new
        lose b.2
        expire b/a at 1
        """,
    )


def test_seed_870382856():
    """Save(node='c', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("c pure; d kept c", returning={"c": [graph("a loose,asks")]}),
        """
        finish c holding new
        lose c.1
        expire c/a at 1
        """,
    )


def test_seed_870402209():
    """Save(node='b', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("b pure; e kept b", returning={"b": [graph("a loose,parts=2; b loose a.0")]}),
        """
        finish b holding new new
        lose b.2
        expire b/a at 1
        """,
    )


def test_seed_1637527476():
    """Save(node='a', part=0, attempt=…) is about an attempt without output"""
    play_script(
        graph("a pure; h kept a", returning={"a": [graph("b pure; c pure b")]}),
        """
        finish a holding new new
        lose a.2
        answer a/b
        """,
    )
