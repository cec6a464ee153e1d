import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from nmn_keras.sweep import Job, run_jobs


def job(directory, name, code):
    return Job(name, [sys.executable, "-c", textwrap.dedent(code)], directory / "logs" / f"{name}.log")


def test_each_job_has_a_core_a_thread_and_a_log(tmp_path):
    code = "import os; print(os.sched_getaffinity(0), os.environ['OMP_NUM_THREADS'], os.environ['XLA_FLAGS'])"
    said = []
    assert run_jobs([job(tmp_path, name, code) for name in "abc"], 1, said.append) == {"a": 0, "b": 0, "c": 0}
    core = min(os.sched_getaffinity(0))
    for name in "abc":
        assert (tmp_path / "logs" / f"{name}.log").read_text().startswith(f"{{{core}}} 1 ")
        assert "multi_thread_eigen=false" in (tmp_path / "logs" / f"{name}.log").read_text()
    assert [line.split(",")[0] for line in said] == [f"{n}: {what}" for n in "abc" for what in ("started", "done")]


def test_a_job_has_its_own_variables_and_is_watched(tmp_path):
    one = job(tmp_path, "one", "import os, time; time.sleep(0.3); print(os.environ['OF_ONE'], os.environ['HOME'])")
    one.environment["OF_ONE"] = "mine"
    seen = []
    assert run_jobs([one], 1, lambda line: None, seen.append) == {"one": 0}
    assert one.log.read_text() == f"mine {os.environ['HOME']}\n"
    assert ["one"] in seen and seen[-1] == []


def test_no_more_run_at_a_time_than_asked_for(tmp_path):
    code = f"""
        import os, pathlib, time
        mine = pathlib.Path({str(tmp_path)!r}, f"running-{{os.getpid()}}")
        mine.touch()
        time.sleep(0.5)
        print(len([*mine.parent.glob("running-*")]))
        mine.unlink()
    """
    names = [str(i) for i in range(5)]
    assert run_jobs([job(tmp_path, name, code) for name in names], 2, lambda line: None) == dict.fromkeys(names, 0)
    most = [int((tmp_path / "logs" / f"{name}.log").read_text()) for name in names]
    assert max(most) == 2, most


def test_a_failure_is_told_and_stops_no_other(tmp_path):
    said = []
    statuses = run_jobs([job(tmp_path, "bad", "raise SystemExit(3)"), job(tmp_path, "good", "")], 1, said.append)
    assert statuses == {"bad": 3, "good": 0}
    assert f"bad: exit status 3, see {tmp_path}/logs/bad.log" in said[1]
    with pytest.raises(ValueError, match=r"At least one job must run at a time\. Received: 0"):
        run_jobs([], 0)


def test_an_interrupt_reaches_those_that_run_and_starts_no_other(tmp_path):
    code = f"""
        import sys
        from nmn_keras.sweep import Job, run_jobs
        from pathlib import Path
        child = '''
        import time
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            print("saved")
        '''
        import textwrap
        command = [sys.executable, "-c", textwrap.dedent(child)]
        run_jobs([Job(name, command, Path({str(tmp_path)!r}, name)) for name in ("first", "second")], 1)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stderr=subprocess.PIPE, text=True)
    log, deadline = tmp_path / "first", time.monotonic() + 60
    while not (log.exists() and "ready" in log.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert log.read_text() == "ready\nsaved\n"
    assert not (tmp_path / "second").exists()
