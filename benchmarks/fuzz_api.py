"""Send a running server requests made of its OpenAPI document, and see whether its answers are those documented.

    python benchmarks/fuzz_api.py
    python benchmarks/fuzz_api.py --agent b1-nmn --examples 1000

A server is started for it. Up to five times as many requests as examples go to each operation: what schemathesis makes
up, valid and not, and bodies that the server takes with something replaced. The first answer that is undocumented, or
of a server that failed, ends the run with the command that repeats it. So does a session that takes a step after each
operation, if it does not play what an agent in this process plays.
"""

import argparse
import sys
from pathlib import Path

import httpx

from nmn_keras import zoo

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from api_fuzzing import Bystander, fuzz
from server_process import serving


def main() -> None:
    arguments = parse_arguments()
    directory = zoo.directory(arguments.zoo)
    agent = zoo.load(arguments.agent, runtime="onnx", zoo=directory)
    with serving(directory) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        bystander = Bystander(client, agent, arguments.agent)
        answered = fuzz(client, arguments.agent, arguments.examples, bystander)
    print("| operation | requests | answers by status |")
    print("|---|---|---|")
    for name, statuses in answered.items():
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
        print(f"| {name} | {statuses.total()} | {counts} |")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="b1-nmn", help="published agent (%(default)s)")
    parser.add_argument("--zoo", help="directory of published agents")
    parser.add_argument("--examples", type=int, default=100, metavar="N", help="of each kind (%(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
