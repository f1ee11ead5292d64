"""What the command says about loops, and does to them."""

from tests.cli.test_acting import going_on


def test_many_chunks_are_one_line(onceflow):
    onceflow.run("prices", "--arg", "count=30", "--name", "many")
    shown = onceflow("show", "many").stdout
    assert "each_price/price_chunk × 30" in shown
    assert shown.count("price_chunk") == 1
    assert len(onceflow.json("show", "many")["tasks"]) == 32


def test_few_chunks_have_a_line_each(onceflow):
    onceflow.run("prices", "--arg", "count=3", "--name", "few")
    assert onceflow("show", "few").stdout.count("price_chunk") == 3


def test_a_loop_of_a_run_that_is_over_cannot_be_limited(onceflow):
    onceflow.run("prices", "--arg", "count=3", "--name", "over")
    assert onceflow.error("limit", "over", "each_price", "5", code=4).startswith("run over is succeeded")


def test_a_loop_is_limited_wherever_it_is_driven(onceflow, tmp_path):
    with going_on(onceflow, "waits", tmp_path / "door"):
        told = onceflow("limit", "waits", "each_price", "5").stdout
        assert told == "waits: at most 5 of each_price in flight\n"
        assert onceflow.json("limit", "waits", "each_price", "7")["limit"] == 7
