"""Agents that tests share, compiled once. Keras is loaded by the tests that ask for one."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background; tests interrupt runs
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def resettable_fast():
    from tiny_agents import Resettable, tiny_agent

    return Resettable(tiny_agent("fast"))


@pytest.fixture(scope="session")
def resettable_paper():
    from tiny_agents import Resettable, tiny_agent

    return Resettable(tiny_agent("paper"))


@pytest.fixture
def fast_agent(resettable_fast):
    """A tiny agent with the fast recipe, as constructed."""
    return resettable_fast.reset()


@pytest.fixture
def paper_agent(resettable_paper):
    """A tiny agent with the paper recipe, as constructed."""
    return resettable_paper.reset()


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    """A tiny agent with every weight in use, and the directory of its export."""
    from tiny_agents import EXTRA, perturb, tiny_agent

    from nmn_keras.export import export_agent

    agent, directory = perturb(tiny_agent()), tmp_path_factory.mktemp("exported")
    export_agent(agent, directory, "tiny", EXTRA)
    return agent, directory


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Run directories of `nmn train`: "fast" with seed 0, "paper" with seed 1."""
    import tiny_runs

    directory = tmp_path_factory.mktemp("runs")
    return {kind: tiny_runs.train(kind, directory) for kind in tiny_runs.OPTIONS}


@pytest.fixture(scope="session")
def agents(tmp_path_factory):
    """The directory of a zoo of small agents, for servers."""
    from onnx_agents import TinyAgent, loud_agent, write_zoo

    directory = tmp_path_factory.mktemp("agents") / "zoo"
    return write_zoo(directory, TinyAgent("tiny"), TinyAgent("pair", 2, 2, seed=1), loud_agent())
