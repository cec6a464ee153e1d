"""The same actions by every way, and whoever else is stepped: a small run of benchmarks/parity.py."""

import re

import numpy as np
import pytest
from benchmark_process import run_benchmark

from nmn_keras import zoo
from serve.packets import packet_of


def test_an_episode_is_the_same_by_every_way():
    report = run_benchmark("parity.py", "--agent", "b1-nmn", "--steps", 100)
    rows = re.findall(r"^\| (?!\|)(.+?) \| (\S+) \| (\S+) \|$", report, re.MULTILINE)
    assert len(rows) == 5 and "100 steps" in report and report.endswith("PASSED\n")
    assert all(min(float(one), float(four)) <= 1e-6 for _, one, four in rows)


@pytest.mark.parametrize("name", zoo.list_agents())
def test_a_row_is_stepped_bit_by_bit_the_same_in_any_company(name):
    """What the server relies on when it steps sessions together, of agents with sines and exponentials."""
    agent, rng = zoo.load(name, runtime="onnx"), np.random.default_rng(0)
    sizes = (agent.observation_size, agent.action_size, 1, agent.state_size)
    packet = packet_of(agent)
    for rows in range(packet, 257, 3 * packet):
        many = [rng.standard_normal((rows, size), np.float32) * 3 for size in sizes]
        company = [rng.standard_normal((packet, size), np.float32) for size in sizes]
        row, place = rng.integers(rows), rng.integers(packet)
        for other, inputs in zip(company, many, strict=True):
            other[place] = inputs[row]
        together, apart = agent.step(*many), agent.step(*company)
        for output in together:
            assert together[output][row].tobytes() == apart[output][place].tobytes(), (output, rows)
