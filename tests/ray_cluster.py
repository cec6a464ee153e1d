"""A real Ray cluster of several nodes in this machine, in a process of its own: its threads and warnings stay there."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # 15 by default, with which other programs on the machine make tests wait for ever
}


@contextlib.contextmanager
def cluster(nodes):
    """Start a head without cores and nodes with one core each; gives its address and the nodes' raylet processes."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as short:  # socket paths
        with subprocess.Popen(
            [sys.executable, __file__, str(nodes)],
            env={**ENVIRONMENT, "RAY_TMPDIR": short},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            yield json.loads(next(line for line in process.stdout if line.startswith("{")))
            process.stdin.close()
            process.wait(timeout=120)


def main(count):
    """Run the cluster until stdin ends; a killed raylet is waited for, or its workers would not notice."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    raylets = [started.add_node(num_cpus=1).all_processes["raylet"][0].process for _ in range(count)]
    print(json.dumps({"address": started.address, "raylets": [raylet.pid for raylet in raylets]}), flush=True)
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    while not over.wait(0.1):
        for raylet in raylets:
            raylet.poll()
    started.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
