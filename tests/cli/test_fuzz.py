"""Whatever is typed, and whatever lies on the disk: a documented exit code, one line that says what is wrong, and never
a traceback."""

import json
import shutil

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceflow import Engine
from onceflow.cli.main import VERBS, main
from tests.cli.common import FLOWS, well_behaved
from tests.cli.flows import nothing, trip

VERBS_TO_TRY = [verb for verb in VERBS if verb not in ("run", "demo", "serve")]
"""`run` gets targets that cannot run, below: workers would take too long here. `serve` does not end by itself."""

GROUPS = ("schedule", "queue")
COMMANDS = {(verb,): main.get_command(click.Context(main), verb) for verb in VERBS_TO_TRY if verb not in GROUPS}
for group in GROUPS:
    inside = main.get_command(click.Context(main), group).commands
    COMMANDS |= {(group, verb): command for verb, command in inside.items()}
"""Words → the command that they mean."""

WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["a-1", "a-2", "b", "a", "", "-", "--", "*", "1", "\0", "\udcff", "\x1b[2J", "x\ny", "../..", "💥"]
    ),
)
VALUES = st.one_of(
    WORDS, st.sampled_from(["0", "-1", "1e999", "nan", "7d", "1GB", "9" * 400, "failed", "failed,undone"])
)
# Without those that never end: engines are followed until somebody stops that.
OPTIONS = st.sampled_from(
    sorted(
        {"--help", "--nonsense", "-x"}.union(
            *[parameter.opts for command in COMMANDS.values() for parameter in command.params if parameter.opts]
        )
        - {"--home", "--debug", "--follow", "-f"}
    )
)
ARGUMENTS = st.lists(
    st.one_of(WORDS.map(lambda word: [word]), st.tuples(OPTIONS, VALUES).map(list), OPTIONS.map(lambda o: [o]))
)
TARGETS = st.one_of(
    WORDS,
    st.builds("{}:{}".format, WORDS, WORDS),
    st.builds((FLOWS + ":{}").format, WORDS),
    st.sampled_from([f"{FLOWS}:broken", f"{FLOWS}:lottery", f"{FLOWS}:NUMBER", "json:loads", "/:x", "//.py:x", ".:x"]),
)

few = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A home directory with some runs, to copy from."""
    home = tmp_path_factory.mktemp("fuzz") / "made"
    with Engine(home, workers=1) as engine:
        for name in ("a-1", "a-2"):
            engine.run(nothing.bind(), name=name)
        engine.run(trip.bind("ann"))
    return home


@pytest.fixture(scope="module")
def home(made):
    copy = made.with_name("home")
    shutil.copytree(made, copy)
    return copy


def call(home, *args, input=None):
    result = CliRunner().invoke(main, [*args[:1], "--home", str(home), *args[1:]], input=input)
    well_behaved(result)
    if result.exit_code not in (0, 130):
        assert len(result.stderr.splitlines()) == 1, result.stderr
    return result


@few
@given(verb=st.sampled_from(VERBS_TO_TRY), arguments=ARGUMENTS)
def test_any_arguments(home, verb, arguments):
    call(home, verb, *[word for group in arguments for word in group])


SENSIBLE = st.sampled_from(
    ["0", "1", "2.5", "7d", "0s", "1GB", "10", "failed", "succeeded,failed", "a-", "trip", "bash"]
)


@st.composite
def nearly_right(draw):
    """A command with options that the verb has, and values that could mean something."""
    verb = draw(st.sampled_from(sorted(COMMANDS)))
    options = [
        p for p in COMMANDS[verb].params if isinstance(p, click.Option) and p.name not in ("home", "debug", "follow")
    ]
    words = []
    for option in draw(st.lists(st.sampled_from(options), max_size=4)):
        words += [option.opts[-1]] if option.is_flag else [option.opts[-1], draw(SENSIBLE)]
    runs = draw(st.lists(st.sampled_from(["a-1", "a-2", "a-", "a", "zz", "trip"]), max_size=2))
    return [*verb, *draw(st.permutations([words, runs]).map(lambda parts: [*parts[0], *parts[1]]))]


@few
@given(command=nearly_right())
def test_commands_that_are_nearly_right(made, command):
    copy = made.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    result = CliRunner().invoke(main, [*command, "--home", str(copy)])
    well_behaved(result)
    if "--json" in command and "--help" not in command and result.exit_code in (0, 1):
        for line in result.stdout.splitlines():
            json.loads(line)


@few
@given(first=WORDS, arguments=ARGUMENTS)
def test_any_words(first, arguments):
    result = CliRunner().invoke(main, [first or "nothing", *[word for group in arguments for word in group]])
    well_behaved(result)


@few
@given(verb=st.sampled_from(["run", "check"]), target=TARGETS, given_=st.lists(st.text(max_size=8), max_size=3))
def test_any_target_that_cannot_run(home, verb, target, given_):
    result = call(home, verb, *[word for text in given_ for word in ("--arg", text)], "--", target)
    assert result.exit_code in (2, 4)


@few
@given(
    content=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["day", "number", "rows", "x"]), inner)
            ),
            max_leaves=8,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_input_file(home, tmp_path, content):
    file = tmp_path / "input.json"
    file.write_bytes(content)
    call(home, "check", f"{FLOWS}:typed", "--input", str(file))


def test_an_input_file_of_a_million_brackets(home, tmp_path):
    file = tmp_path / "input.json"
    file.write_text("[" * 1_000_000)
    assert call(home, "check", f"{FLOWS}:typed", "--input", str(file)).exit_code == 2


@settings(few, max_examples=40)
@given(
    verb=st.sampled_from(["ls", "show", "output", "delete", "cancel", "resume", "prune", "doctor", "watch"]),
    damage=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=300)), min_size=1, max_size=4),
    length=st.floats(0, 1.2),
)
def test_any_damage_to_the_journal(made, verb, damage, length):
    copy = made.with_name("damaged")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    journal = copy / "journal.db"
    content = bytearray(journal.read_bytes())
    for place, garbage in damage:
        start = int(place * len(content))
        content[start : start + len(garbage)] = garbage
    journal.write_bytes(bytes(content[: int(length * len(content))]))
    more = {"delete": ["--all", "--yes"], "prune": ["--keep", "0", "--yes"], "watch": [], "ls": [], "doctor": []}
    result = CliRunner().invoke(main, [verb, "--home", str(copy), *more.get(verb, ["a-1"])])
    well_behaved(result)


@pytest.mark.parametrize("verb", ["ls", "doctor", "show"])
def test_a_home_that_is_a_mess(tmp_path, verb):
    (tmp_path / "journal.db").mkdir()
    (tmp_path / "blobs").write_text("")
    assert call(tmp_path, verb, *(["x"] if verb == "show" else [])).exit_code == 5
