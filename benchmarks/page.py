"""How smoothly the live page moves: frames per second in a real browser, with every chart, beside an empty page.

    python benchmarks/page.py
    python benchmarks/page.py --beside b3-rnn

The server runs on one core, headless Chromium, which draws by software, on all. In each round frames are counted while
the page plays at 30 steps per second and as fast as it goes, and while a page shows nothing: what the browser gives at
most. Steps per second come from the page's own counter.
"""

import argparse
import re
import shutil
import statistics
import sys
import time

from load import spread
from playwright.sync_api import Browser, Page, sync_playwright
from servers import HOST, Failed, clearly, free_port, post, serving

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
COUNT = """seconds => new Promise(resolve => {
  let frames = 0;
  const begun = performance.now();
  const next = now => {
    frames += 1;
    if (now - begun < 1000 * seconds) requestAnimationFrame(next);
    else resolve(1000 * frames / (now - begun));
  };
  requestAnimationFrame(next);
})"""
SPEEDS = {"30 steps/s": 4, "as fast as it goes": 6}
"""Places of the page's slider."""


def main() -> None:
    arguments = parse_arguments()
    print(f"    python {' '.join(sys.argv)}\n")
    chromium = shutil.which("chromium")
    if chromium is None:
        raise Failed("Chromium is needed: apt-get install chromium.")
    port = free_port()
    command = [sys.executable, "-m", "serve", "--port", str(port)]
    with serving(command, lambda: post(port, "/v1/agents/b3-nmn/step", b'{"observation": [0, 0, 0, 0]}')):
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            measured = [play(browser, port, arguments) for _ in range(arguments.rounds)]
            browser.close()
    print("| | frames/s, median (range) | steps/s |\n|---|---|---|")
    for name in measured[0]:
        frames, steps = zip(*(one[name] for one in measured), strict=True)
        print(f"| {name} | {spread(frames, '.1f')} | {statistics.median(steps):.0f} |")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each in a round (%(default)s)")
    parser.add_argument("--beside", metavar="AGENT", help="a second player (none)")
    return parser.parse_args()


def play(browser: Browser, port: int, arguments: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Frames and steps per second of one round, by what is shown."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    result = {"nothing": (page.evaluate(COUNT, arguments.seconds), 0.0)}
    page.goto(f"http://{HOST}:{port}/?seed=7")
    page.wait_for_selector("#readout:has-text('Step')")
    if arguments.beside:
        page.select_option("#rival", arguments.beside)
    for name, place in SPEEDS.items():
        page.fill("#speed", str(place))
        begun, first = time.monotonic(), steps(page)
        frames = page.evaluate(COUNT, arguments.seconds)
        result[name] = (frames, (steps(page) - first) / (time.monotonic() - begun))
    page.close()
    return result


def steps(page: Page) -> int:
    found = re.match(r"Step (\d+)", page.inner_text("#readout"))
    if found is None:
        raise Failed(f"The page does not play: {page.inner_text('#condition')}")
    return int(found[1])


if __name__ == "__main__":
    clearly(main)
