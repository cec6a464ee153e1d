"""What MkDocs does not do by itself: files outside of `docs/` that pages link to, and the commands' help."""

import contextlib
import io
import os
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()(?P<path>\.\./[^)#\s]+)")
HELP = re.compile(r"<!-- help: (?P<program>\w+) ?(?P<command>\w*) -->")
LANGUAGES = {".js": "js", ".py": "python", ".sh": "sh", ".cpp": "cpp", ".html": "html"}


def on_files(files, config):
    """Add a page for each file outside of `docs/` that a page links to, and for those that these link to."""
    left = [Path(file.abs_src_path) for file in files.documentation_pages()]
    added = set()
    while left:
        page = left.pop()
        for target in _outside(page) - added:
            added.add(target)
            files.append(_page(target, config))
            left += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown, page, config, files):
    """Turn links to files outside of `docs/` into links to their pages, and insert the help of commands."""
    folder = (DOCS / page.file.src_uri).parent
    source = folder if not page.file.generated_by else (ROOT / page.file.src_uri.removeprefix("files/")).parent

    def to_page(match):
        target = (source / match["path"]).resolve()
        address = DOCS / _address(target) if target.is_file() and DOCS not in target.parents else target
        return Path(os.path.relpath(address, folder)).as_posix()

    return HELP.sub(lambda match: f"```text\n{_help(**match.groupdict())}```", LINK.sub(to_page, markdown))


def _outside(page):
    """The files outside of `docs/` that a page links to."""
    found = {(page.parent / match["path"]).resolve() for match in LINK.finditer(page.read_text())}
    return {path for path in found if path.is_file() and DOCS not in path.parents}


def _address(target):
    """Where in `docs/` the page of a file would lie."""
    return f"files/{target.relative_to(ROOT).as_posix().removesuffix('.md')}.md"


def _page(target, config):
    text = target.read_text()
    if target.suffix != ".md":
        name = target.relative_to(ROOT).as_posix()
        text = f"# {name}\n\n```{LANGUAGES.get(target.suffix, 'text')}\n{text.rstrip()}\n```\n"
    return File.generated(config, _address(target), content=text, inclusion=InclusionLevel.NOT_IN_NAV)


def _help(program, command):
    """What `--help` prints. That of `nmn train` goes without the recipes' fields, which need Keras."""
    sys.path.insert(0, str(ROOT))
    from nmn_keras import cli
    from serve.__main__ import parse_arguments

    os.environ["COLUMNS"] = "88"
    parse = parse_arguments if program == "serve" else cli._parser(()).parse_args
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        parse([*([command] if command else []), "--help"])
    return printed.getvalue()
