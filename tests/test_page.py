"""The live page in a real browser against a real server with the published agents."""

import itertools
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import httpx
import pytest
from onnx_agents import TinyAgent, write_zoo
from server_process import ROOT, serving

from nmn_keras import envs, zoo

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
KEY = "ann-0123456789abcdef"
AXE = "axe-core@4.10.3"
FASTEST = "End"
"""The key that moves a slider to its right end."""
KNOWS = "Player that knows the task"
ARTEFACTS = Path(__file__).parent / "artefacts"
SIZES = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1280, 800)}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url():
    with serving(zoo.directory()) as server:
        yield server.url


@pytest.fixture
def visit(browser):
    """Opens the page; what its console says against it fails the test, unless it is of a server that is gone."""
    contexts, errors = [], []

    def open_page(url, **settings):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{url}/?seed=7")
        return page

    yield open_page
    for context in contexts:
        context.close()
    away = re.compile("ERR_CONNECTION|WebSocket connection to|status of (401|404|410)")
    assert not [error for error in errors if not away.search(error)]


def until(page, condition, seconds=120.0):  # a busy machine steps slowly
    """Waits until the condition holds; the page goes on meanwhile."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, page.inner_text("#condition") + " " + page.inner_text("#readout")
        page.wait_for_timeout(30)
    return value


def steps(page):
    found = re.match(r"Step (\d+)", page.inner_text("#readout"))
    return int(found[1]) if found else -1


def mean_reward(page, player=0):
    found = re.findall(r"mean of the last \d+ ([+−]?[\d.]+)", page.inner_text("#readout"))
    return number(found[player].rstrip("."))


def number(text):
    return float(text.replace("−", "-"))


def play_to(page, step):
    until(page, lambda: steps(page) >= step)


def ready(page):
    until(page, lambda: steps(page) >= 0)


def test_an_agent_adapts_fails_while_frozen_and_recovers(visit, url):
    page = visit(url)
    play_to(page, 1)
    early = mean_reward(page)  # at five steps per second: of the first few, in which nothing has been found
    page.press("#speed", FASTEST)
    play_to(page, 200)
    assert mean_reward(page) > max(early, 8.0)
    page.click("#lock")
    until(page, lambda: page.get_attribute("#lock", "aria-pressed") == "true")
    page.click("#swap")
    play_to(page, steps(page) + 120)
    assert mean_reward(page) < 0.0
    page.click("#lock")
    frozen = steps(page)
    until(page, lambda: steps(page) > frozen + 60 and mean_reward(page) > 8.0)
    page.click("#play")
    done = page.inner_text("#marks")
    assert re.search(r"z frozen[\s\S]*targets swapped[\s\S]*z freed", done)


def test_two_players_meet_one_world_that_can_be_changed(visit, url):
    page = visit(url)
    ready(page)
    page.select_option("#rival", "b3-rnn")
    until(page, lambda: page.locator("#views canvas").count() == 2 and steps(page) >= 3)
    page.click("#play")
    before = page.locator("#task output").all_inner_texts()
    across, up = map(number, before[:2])
    box = page.locator("#views canvas").nth(1).bounding_box()
    scale = (box["width"] - 12) / 4
    x, y = box["x"] + 6 + (across + 2) * scale, box["y"] + 6 + (2 - up) * scale
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - scale * (across + 0.5), y, steps=4)
    page.mouse.up()
    until(page, lambda: abs(number(page.locator("#task output").first.inner_text()) + 0.5) < 0.03)
    page.focus("#task input >> nth=3")
    page.keyboard.press("ArrowRight")
    until(page, lambda: page.locator("#task output").nth(3).inner_text() != before[3])
    assert page.locator("#task output").nth(2).inner_text() == before[2]
    page.click("#new-episode")
    page.click("#step")
    assert re.search(r"target moved[\s\S]*target moved[\s\S]*new episode", page.inner_text("#marks"))


@pytest.mark.parametrize("benchmark", ["b1", "b2"])
def test_the_other_worlds_are_played(visit, url, benchmark):
    page = visit(url)
    ready(page)
    page.select_option("#benchmark", benchmark)
    until(page, lambda: f"{benchmark}-nmn" in page.inner_text("#readout"))
    page.press("#speed", FASTEST)
    if benchmark == "b1":
        page.select_option("#rival", "Bayes-optimal player")
        until(page, lambda: "Bayes" in page.inner_text("#readout") and steps(page) >= 45)
        assert mean_reward(page, player=1) == 10.0  # it hits from the third step on
    else:
        play_to(page, 120)
    assert mean_reward(page) > 2.0
    assert page.is_enabled("#lock") and page.is_visible("#inside") and page.is_hidden("#swap")
    page.select_option("#agent", f"{benchmark}-rnn")
    until(page, lambda: f"{benchmark}-rnn" in page.inner_text("#readout"))
    assert page.is_disabled("#lock") and page.is_hidden("#inside")  # it has no signal
    assert "None of the players has this signal" in page.inner_text("#signal")
    page.click("#play")


@pytest.mark.parametrize("benchmark", ["b2", "b3"])
def test_a_player_that_knows_the_task_earns_what_it_expects(visit, url, benchmark):
    page = visit(url)
    choose_who_knows(page, benchmark)
    page.press("#speed", FASTEST)
    expected = until(page, lambda: expects(page))
    line = number(re.search(r"knows the task: ([\d.]+)", page.inner_text("#reward-legend"))[1])
    assert line == pytest.approx(envs.BENCHMARKS[benchmark].known_task.rate, rel=0.01)
    assert expected == pytest.approx(line, rel=0.25)  # the line is a mean over tasks
    means = []
    while len(means) < 30:
        play_to(page, steps(page) + 50)
        means.append(mean_reward(page))
    assert sum(means) / len(means) == pytest.approx(expected, rel=0.15)


def test_a_player_that_knows_the_task_turns_at_once(visit, url, axe):
    page = visit(url, reduced_motion="reduce")
    choose_who_knows(page, "b3")
    until(page, lambda: expects(page))
    for _ in range(3):
        step_once(page)
    page.click("#swap")
    rewards = [step_once(page) for _ in range(24)]
    assert rewards.count(100) >= 2
    # It may stand in the target when that turns bad, and may appear in it, but does not go there.
    assert all(reward != -50 or before != 0 for before, reward in zip([-50, *rewards], rewards, strict=False))
    page.evaluate(axe)
    assert page.evaluate("axe.run().then(({violations}) => violations.map(({id}) => id))") == []


def choose_who_knows(page, benchmark):
    ready(page)
    page.select_option("#benchmark", benchmark)
    page.select_option("#agent", KNOWS)
    until(page, lambda: KNOWS in page.inner_text("#readout"))


def expects(page):
    """What it says that it will earn per step; None before its plan is there."""
    found = re.search(r"expects ([\d.]+) per step", page.inner_text("#readout"))
    return found and float(found[1])


def step_once(page):
    """The reward of one step."""
    before = steps(page)
    page.click("#step")
    play_to(page, before + 1)
    return number(re.search(r"reward ([+−]?\d+)", page.inner_text("#readout"))[1])


def test_a_finger_drags_targets_and_scrolls_beside_them(visit, url):
    page = visit(url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce")
    ready(page)
    page.locator("#views canvas").scroll_into_view_if_needed()
    across, up = map(number, page.locator("#task output").all_inner_texts()[:2])
    box = page.locator("#views canvas").bounding_box()
    scale = (box["width"] - 12) / 4
    x, y = box["x"] + 6 + (across + 2) * scale, box["y"] + 6 + (2 - up) * scale
    touch = page.context.new_cdp_session(page)

    def swipe(start, up):
        for kind, moved in (("Start", 0), ("Move", up / 2), ("Move", up)):
            points = [{"x": start[0], "y": start[1] - moved}]
            touch.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    scrolled = page.evaluate("scrollY")
    swipe([x, y], (0.5 - up) * scale)
    until(page, lambda: abs(number(page.locator("#task output").nth(1).inner_text()) - 0.5) < 0.03)
    assert page.evaluate("scrollY") == scrolled
    beside = [box["x"] + 10, box["y"] + box["height"] - 10]
    swipe(beside, 200)
    until(page, lambda: page.evaluate("scrollY") > scrolled + 50)


def start_server(port, store):
    command = [sys.executable, "-m", "serve", "--port", str(port), "--store", store, "--agents", "b1-nmn"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    for _ in range(300):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health/ready").status_code == 200:
                return process
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError("The server did not start.")


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_a_killed_server_is_said_and_its_session_resumed(visit, tmp_path, store):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"sqlite:///{tmp_path}/sessions.db" if store == "sqlite" else store
    server = start_server(port, address)
    try:
        page = visit(f"http://127.0.0.1:{port}")
        ready(page)
        play_to(page, 5)
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(page, lambda: page.get_attribute("#condition", "data-state") == "lost")
        before = steps(page)
        server = start_server(port, address)
        if store == "sqlite":
            until(page, lambda: page.get_attribute("#condition", "data-state") == "connected")
            remembered = int(re.search(r"remembers its (\d+) steps", page.inner_text("#condition"))[1])
            assert remembered in (before, before + 1)
        else:
            until(page, lambda: page.get_attribute("#condition", "data-state") == "forgotten")
            assert "empty memory" in page.inner_text("#condition")
        play_to(page, before + 5)
        page.click("#play")
        assert page.locator("#marks li").all_inner_texts() == (
            [] if store == "sqlite" else [f"after step {before}: memory lost"]
        )
    finally:
        server.kill()
        server.wait()


def test_a_key_is_asked_for_and_used(visit, tmp_path):
    keys = tmp_path / "keys.txt"
    keys.write_text(KEY)
    with serving(zoo.directory(), "--api-keys", str(keys), "--agents", "b1-nmn") as server:
        page = visit(server.url)
        page.fill("#key", "not the key of this server")
        page.press("#key", "Enter")
        until(page, lambda: "does not know" in page.inner_text("#condition"))
        page.fill("#key", KEY)
        page.press("#key", "Enter")
        play_to(page, 2)
        with page.expect_download() as download:
            page.click(".downloads >> text=policy.onnx")
        assert download.value.path().read_bytes() == zoo.path("b1-nmn", "policy.onnx").read_bytes()
        page.close()  # which ends its session before the server is


def test_the_keyboard_reaches_every_control(visit, url):
    page = visit(url, reduced_motion="reduce")
    ready(page)
    page.wait_for_timeout(300)
    assert steps(page) == 0  # who wants less motion starts it
    visible = "Array.from(document.querySelectorAll('a[href], button:enabled, select, input, summary'))"
    controls = page.evaluate(
        f"{visible}.filter(e => e.offsetParent && e.checkVisibility()).map((e, i) => (e.dataset.seen = i, i))"
    )
    reached = []
    page.evaluate("document.body.focus()")
    for _ in range(len(controls) + 5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.dataset.seen ?? null"))
    assert {str(number) for number in controls} <= set(reached)
    page.focus("#step")
    page.keyboard.press("Enter")
    play_to(page, 1)
    page.focus("#play")
    page.keyboard.press("Space")
    play_to(page, 3)
    assert page.inner_text("#play") == "Pause"


def test_agents_of_other_worlds_are_shown_without_one(visit, tmp_path):
    elsewhere = write_zoo(tmp_path / "zoo", TinyAgent("elsewhere", env_id="Elsewhere-v0"))
    with serving(elsewhere) as server:
        page = visit(server.url)
        until(page, lambda: page.locator("article.card").count() == 1)
        assert "None of the agents served plays a world of this page" in page.inner_text("#condition")
        assert "elsewhere" in page.inner_text("article.card")
        titles = page.locator("main h2:visible").all_inner_texts()
        assert titles == ["The agents"] and not page.locator("#play").is_visible()


def test_the_gallery_shows_what_was_published(visit, url):
    page = visit(url, reduced_motion="reduce")
    ready(page)
    card = page.get_by_role("article", name="b3-nmn", exact=True)
    scores = zoo.card("b3-nmn")["scores"]["deterministic"]
    assert f"{scores['discounted_return']:.0f}" in card.inner_text()
    assert all(f"{bound:.0f}" in card.inner_text() for bound in scores["discounted_return_interval"])
    for summary in card.locator("summary").all():
        summary.click()
    until(page, lambda: "Trained with" in card.inner_text() and card.locator(".uplot").count() == 1)
    code = card.locator("pre").all_inner_texts()
    assert f"curl -X POST {url}/v1/agents/b3-nmn/sessions" in code[2]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("axe")
    try:
        subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"{AXE} cannot be fetched with npm: {error}")
    with tarfile.open(*folder.glob("*.tgz")) as files:
        return files.extractfile("package/axe.min.js").read().decode()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, url, axe, scheme):
    page = visit(url, reduced_motion="reduce", color_scheme=scheme, viewport={"width": 390, "height": 844})
    ready(page)
    page.click("#step")
    for summary in page.locator("article.card").first.locator("summary").all():
        summary.click()
    page.wait_for_timeout(200)
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(({violations}) => violations)")
    serious = [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in found]
    assert not serious
    assert page.evaluate("document.documentElement.scrollWidth") <= 390  # nothing sticks out of a phone


@pytest.fixture(scope="module")
def physics_url(tmp_path_factory):
    """A server of untrained agents, one that hides physics of each kind and one of a world that the page has not."""
    hidden = "nmn_keras/HiddenParameters-v0"
    agents = [
        TinyAgent("rod", 3, 1, hidden, high=2.0, env_kwargs={"env": "Pendulum-v1", "parameters": {"l": [0.6, 1.4]}}),
        TinyAgent("plain-rod", 3, 1, "Pendulum-v1", high=2.0),
        TinyAgent("elsewhere", 3, 1, hidden, env_kwargs={"env": "Pendulum-v1", "parameters": {"dt": [0.1, 0.2]}}),
    ]
    with serving(write_zoo(tmp_path_factory.mktemp("physics") / "zoo", *agents)) as server:
        yield server.url


def test_physics_change_while_a_rod_is_turned(visit, physics_url):
    page = visit(physics_url)
    play_to(page, 5)
    assert page.locator("#agent option").all_inner_texts() == ["plain-rod (neuromodulated)", "rod (neuromodulated)"]
    page.select_option("#agent", "rod")
    until(page, lambda: page.inner_text("#readout").startswith("Step") and "rod:" in page.inner_text("#readout"))
    page.click("#play")
    length = number(page.locator("#task output").first.inner_text())
    assert 0.6 <= length <= 1.4
    page.click("#swap")
    until(page, lambda: page.locator("#task output").first.inner_text() == ("1.40" if length <= 1.0 else "0.60"))
    page.focus("#task input >> nth=1")
    page.keyboard.press("Home")
    until(page, lambda: page.locator("#task output").nth(1).inner_text() == "0.10")
    assert page.locator("#marks li").all_inner_texts()[0].endswith("length changed")
    picture = page.locator("#views canvas").screenshot()
    page.click("#step")
    until(page, lambda: page.locator("#views canvas").screenshot() != picture)


def test_a_reload_goes_on_with_its_session(visit, url):
    page = visit(url)
    page.press("#speed", FASTEST)
    play_to(page, 80)
    page.click("#lock")
    until(page, lambda: page.get_attribute("#lock", "aria-pressed") == "true")
    page.click("#play")
    page.wait_for_timeout(300)
    before = page.inner_text("#readout"), page.locator("#task output").all_inner_texts()
    assert "z frozen" in before[0]
    page.reload()
    ready(page)
    assert (page.inner_text("#readout"), page.locator("#task output").all_inner_texts()) == before
    step = steps(page)
    assert f"remembers its {step} steps" in page.inner_text("#condition")
    assert page.get_attribute("#lock", "aria-pressed") == "true" and page.inner_text("#lock") == "Free z"
    assert "z frozen" in page.inner_text("#marks") and page.inner_text("#play") == "Play"
    page.click("#play")
    play_to(page, step + 30)
    page.reload()  # also in the middle of steps
    play_to(page, step + 60)
    assert "remembers" in page.inner_text("#condition") and page.inner_text("#play") == "Pause"


def test_a_reload_after_the_session_expired_says_so(visit):
    with serving(zoo.directory(), "--ttl-seconds", "1", "--agents", "b1-nmn") as server:
        page = visit(server.url)
        play_to(page, 3)
        page.click("#play")
        page.wait_for_timeout(300)
        before = steps(page)
        page.wait_for_timeout(1500)
        page.reload()
        ready(page)
        assert page.get_attribute("#condition", "data-state") == "forgotten"
        assert "empty memory" in page.inner_text("#condition") and steps(page) == before
        assert "memory lost" in page.inner_text("#marks")
        page.click("#step")
        play_to(page, before + 1)


@pytest.mark.parametrize(("size", "scheme"), list(itertools.product(SIZES, ["light", "dark"])))
def test_the_page_fits_its_screen(visit, url, axe, size, scheme):
    width, height = SIZES[size]
    page = visit(url, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.press("#speed", FASTEST)
    play_to(page, 150)
    page.click("#play")
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(300)
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"page-{size}-{scheme}.png")
    boxes = [page.locator(part).bounding_box() for part in ("#views", "#meddle", "#reward-chart", "#signal-chart")]
    if size == "desktop":
        assert all(box["y"] + box["height"] <= height for box in boxes)
        one_line = page.locator("header").bounding_box()["height"]
        assert one_line < 50
    else:
        assert all(above["y"] + above["height"] < below["y"] for above, below in itertools.pairwise(boxes))
        assert boxes[0]["y"] + 200 < height
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(axe)
    assert page.evaluate("axe.run().then(({violations}) => violations.map(({id}) => id))") == []
