"""An attempt at a job, as a worker of a cluster makes it: real processes, no Ray."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import textwrap
import time

import pytest

from nmn_keras import attempt, checkpoint
from nmn_keras.sweep import Job

WORKER = """
    import pathlib, signal, sys
    from nmn_keras import attempt
    from nmn_keras.sweep import Job
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as Ray does; it raises interrupts by other means
    job = Job("mine", [sys.executable, "-c", sys.argv[2]], pathlib.Path(sys.argv[1], "log"))
    sender = attempt.Sender(attempt.versions(), sys.executable, "mark")
    print(attempt.attempt(job, sender))
"""

INTERRUPT = """
    import _thread, pathlib, sys, threading, time
    def later():
        while pathlib.Path(sys.argv[1], "log").read_text().count("pid") < 2:
            time.sleep(0.05)
        _thread.interrupt_main()
    threading.Thread(target=later, daemon=True).start()
"""


@pytest.fixture
def sender(tmp_path):
    (tmp_path / "mark").touch()
    return attempt.Sender(attempt.versions(), "python-of-the-sender", "mark")


def job(directory, code, **options):
    return Job("mine", ["python-of-the-sender", "-c", textwrap.dedent(code)], directory / "log", **options)


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid):
    """Whether a process runs; one that is dead and not yet waited for does not."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_nodes_own_python_runs_the_job_and_the_log_says_where(tmp_path, sender):
    code = "import nmn_keras, os, sys; print(sys.executable, nmn_keras.__file__, os.environ['MINE']); sys.exit(3)"
    one = job(tmp_path, code, environment={"MINE": "yes"})
    assert attempt.attempt(one, sender) == 3
    begun, said = one.log.read_text().splitlines()
    assert begun.startswith(f"{attempt.BEGUN}{os.uname().nodename} at 20") and begun.endswith(" UTC, from the start")
    assert said == f"{sys.executable} {attempt.nmn_keras.__file__} yes"


def test_a_job_resumes_from_its_checkpoint_and_starts_anew_where_there_is_none_yet(tmp_path, sender):
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    one = job(tmp_path, "import sys; print(sys.argv[1:])", run_dir=run_dir)
    for name in ("origin.json", "agent-000000.weights.h5", "training-000000.npz", "config.json"):
        (run_dir / name).touch()
    assert attempt.attempt(one, sender) == 0 and not [*run_dir.iterdir()]
    (run_dir / "mine.txt").touch()
    (run_dir / "origin.json").touch()
    assert attempt.attempt(one, sender) == 0 and len([*run_dir.iterdir()]) == 2, "what is not a run's stays"
    checkpoint.write(run_dir, {}, {"update": 7}, lambda path: path.touch(), {})
    assert attempt.attempt(one, sender) == 0
    lines = one.log.read_text().splitlines()
    assert lines[1::2] == ["[]", "[]", "['--resume']"] and lines[-2].endswith("UTC, from the checkpoint of update 7")


def test_a_process_that_is_killed_is_told_from_one_that_fails(tmp_path, sender):
    with pytest.raises(attempt.Killed, match="mine was ended by signal 9, see "):
        attempt.attempt(job(tmp_path, "import os; os.kill(os.getpid(), 9)"), sender)


def test_a_node_with_other_code_or_another_disk_is_refused(tmp_path, sender):
    changed = {**sender.versions, "keras": "2.0"}
    other, elsewhere = dataclasses.replace(sender, versions=changed), dataclasses.replace(sender, mark="unseen")
    node = os.uname().nodename
    with pytest.raises(attempt.UnfitNode, match=rf"needs the same .* Received: {{'keras': '.* on {node}, 2\.0 here'}}"):
        attempt.attempt(job(tmp_path, ""), other)
    with pytest.raises(attempt.UnfitNode, match=rf"under the same path.* Received: {tmp_path}, which {node} does"):
        attempt.attempt(job(tmp_path, ""), elsewhere)
    assert not (tmp_path / "log").exists()


def test_a_killed_worker_takes_its_process_along_and_an_interrupt_reaches_it(tmp_path, sender):
    code = """
        import os, time
        try:
            print("pid", os.getpid(), flush=True)
            time.sleep(300)
        except KeyboardInterrupt:
            print("saved")
    """
    log = tmp_path / "log"
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(tmp_path), textwrap.dedent(code)]
    with subprocess.Popen(command) as worker:
        until(lambda: log.exists() and "pid" in log.read_text())
        child = int(log.read_text().split()[-1])
        assert alive(child)
        worker.kill()
    until(lambda: not alive(child))

    command[2] = textwrap.dedent(INTERRUPT) + command[2]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "0\n" and log.read_text().endswith("saved\n"), done.stderr


def test_a_second_attempt_waits_for_the_end_of_the_first(tmp_path, sender):
    """A node that is cut off may go on for a while: what it writes and what its successor writes never mix."""
    code = "import time; print('in', flush=True); time.sleep(1.5); print('out', flush=True)"
    command = [sys.executable, "-c", textwrap.dedent(WORKER), str(tmp_path), code]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        until(lambda: (tmp_path / "log").exists() and "in" in (tmp_path / "log").read_text().splitlines())
        assert attempt.attempt(job(tmp_path, code), sender) == 0
        assert first.wait() == 0
    lines = [line for line in (tmp_path / "log").read_text().splitlines() if line in ("in", "out")]
    assert lines == ["in", "out", "in", "out"] and "waits for its end" in (tmp_path / "log").read_text()
