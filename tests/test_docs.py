"""The documentation's code runs, and the site builds of it: offline, without a warning, with every public name."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from server_process import ROOT, serving
from snippets import NOT_CODE, RUN, blocks

import nmn_keras
import nmn_keras.client

PAGES = ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]
BLOCKS = {page: blocks((ROOT / page).read_text()) for page in PAGES}
RUNNABLE = {page: [b for b in found if b.language in RUN and not b.not_run] for page, found in BLOCKS.items()}


@pytest.fixture(scope="module")
def address():
    with serving(ROOT / "zoo", "--agents", "b1-nmn", "b3-nmn", "b3-rnn", "--grpc-port", "0") as server:
        yield server.url.removeprefix("http://"), server.grpc


@pytest.fixture
def clone(tmp_path):
    """A folder like a fresh clone with its environment, to write into."""
    for name in ("zoo", "examples", "deploy"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("node_modules", "build"))
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if RUNNABLE[page]])
def test_the_code_of_a_page_runs(page, address, clone):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NMN_ZOO": str(clone / "zoo"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, str(ROOT / "tests" / "snippets.py"), str(ROOT / page), *address]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_every_block_says_what_it_is_and_nearly_all_run():
    unknown = [f"{p}:{b.line} {b.language!r}" for p in PAGES for b in BLOCKS[p] if b.language not in (*RUN, *NOT_CODE)]
    assert not unknown, f"name the language of these blocks, `text` for output: {unknown}"
    code = [block for page in PAGES for block in BLOCKS[page] if block.language in RUN]
    left_out = [block for block in code if block.not_run]
    assert len(code) > 40 and sum(block.language == "python" for block in left_out) <= 5
    elsewhere = [re.findall(r"[\w/]+\.(?:py|md)", block.not_run) for block in left_out]
    assert all((ROOT / name).is_file() for names in elsewhere for name in names), elsewhere
    assert sum(not names for names in elsewhere) <= 5, "say which test does what these blocks do"
    assert len(left_out) <= 0.45 * len(code), [(block.line, block.not_run) for block in left_out]


def test_a_mark_that_no_longer_fits_fails():
    (block,) = blocks("<!-- run with: 1_000 -> 2 -->\n<!-- then: assert x -->\n```python\nx = 1000\n```\n")
    assert (block.line, block.then) == (4, "assert x")
    with pytest.raises(ValueError, match="Received: '1_000'"):
        block.as_tested()


OFFLINE = """
import socket, sys
def refuse(*arguments, **options):
    raise OSError("the documentation must build without a network")
socket.socket.connect = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli(["build", "--strict", "--site-dir", sys.argv[1]], standalone_mode=False)
assert not {"keras", "tensorflow", "jax"} & set(sys.modules), "the documentation must build without Keras"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    directory = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-c", OFFLINE, str(directory)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    return directory


def test_the_site_loads_nothing_from_other_hosts_and_misses_no_file(site):
    pages = [*site.rglob("*.html")]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|source|iframe|link)\b[^>]*?\s(?:src|srcset|href)="([^"]+)"', text)
        followed = re.findall(r'<a\b[^>]*?\shref="([^"]+)"', text)
        assert not [url for url in loaded if urlsplit(url).netloc], page
        for url in (*loaded, *followed):
            parts = urlsplit(url)
            target = page.parent / unquote(parts.path) if parts.path else page
            if parts.scheme or parts.netloc or page.name == "404.html":
                continue
            assert target.is_file() or (target / "index.html").is_file(), f"{page.name}: {url}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text()), style


def test_the_site_works_from_a_folder_and_its_search_too(site):
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or pytest.skip("chromium is not installed: apt-get install chromium")
    asked = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 360, "height": 700})
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "tutorial", "server", "RESULTS", "reference/agents"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        page.set_viewport_size({"width": 1280, "height": 700})
        page.fill("input[name=query]", "NMNDense")
        page.wait_for_selector(".md-search-result__link[href*='layers.html']", timeout=60_000)
        browser.close()
    assert len(asked) > 20 and not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


def test_the_reference_has_every_public_name(site):
    text = "".join(path.read_text() for path in (site / "reference").glob("*.html"))
    names = {f"{home}.{name}" for name, home in nmn_keras._HOMES.items()}
    names |= {f"nmn_keras.{name}" for name in nmn_keras._MODULES}
    public = (getattr(nmn_keras.client, name) for name in nmn_keras.client.__all__)
    names |= {f"{thing.__module__}.{thing.__qualname__}" for thing in public}
    assert not {name for name in names if f'id="{name}"' not in text}
    assert "--validation-episodes" in text and "--max-sessions" in text  # the commands' own help
