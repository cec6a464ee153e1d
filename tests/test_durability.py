"""Steps of many sessions while servers are killed: small runs of benchmarks/durability.py."""

import shutil
from importlib.util import find_spec

import pytest
from benchmark_process import run_benchmark

SMALL = (
    "--agent",
    "b1-nmn",
    "--sessions",
    20,
    "--steps",
    20,
    "--kills",
    2,
    "--clients",
    8,
    "--pauses",
    2,
    "--twice",
    0.1,
)


def check(report):
    assert "changed by the kills: 0" in report and report.endswith("PASSED\n")
    assert report.count("400 steps in") == 2 and ", 2 kills, " in report


def test_a_killed_server_on_sqlite_loses_doubles_and_changes_no_step():
    check(run_benchmark("durability.py", *SMALL))


def test_opening_and_forking_that_a_kill_hits_make_one_session_each():
    report = run_benchmark("creations.py", "--sessions", 200, "--kills", 2, "--clients", 8, "--twice", 0.2)
    assert "- 200 sessions in" in report and ", 2 kills, " in report and report.endswith("PASSED\n")


needs_redis = pytest.mark.skipif(
    not shutil.which("redis-server"), reason="redis-server is not installed: apt-get install redis-server"
)


@needs_redis
def test_a_killed_server_beside_another_on_redis_loses_doubles_and_changes_no_step():
    check(run_benchmark("durability.py", "--store", "redis", *SMALL))


@pytest.mark.slow
@needs_redis
@pytest.mark.skipif(not shutil.which("haproxy"), reason="haproxy is not installed: apt-get install haproxy")
def test_one_of_three_servers_behind_the_load_balancer_is_killed():
    check(run_benchmark("durability.py", "--behind", "haproxy", "--streams", 0.5, *SMALL))


@pytest.mark.slow
@needs_redis
@pytest.mark.skipif(not find_spec("ray"), reason="ray[serve] is not installed")
def test_one_of_three_replicas_on_ray_serve_is_killed():
    check(run_benchmark("durability.py", "--behind", "ray", "--streams", 0.5, *SMALL))
